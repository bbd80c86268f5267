/* test_table.c - whole tables, every value against the slow path, and tables applied to rows over nested loops of any
 * strides, against one row at a time; on blocks of exactly the right size. */
#include "test.h"

/* the first 64 bytes are zero: pe_table_rows asks for that; the rest is anything */
static void *work_new(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) abort();
    memset(p, 0x77, bytes);
    memset(p, 0, bytes < 64 ? bytes : 64);
    return p;
}

static void random_positions(pe_positions *p, int64_t *list, size_t n) {
    double *floats = (double *)list;
    int64_t start = (int64_t)(random64() >> (1 + random_below(63)));
    *p = (pe_positions){(pe_pos_kind)random_below(4), list, random_below(2) ? start : -start, random_below(8) == 0};
    if (p->kind == PE_POS_RANGE) p->data = NULL;
    for (size_t i = 0; i < n; i++) {
        if (p->kind == PE_POS_F64)
            floats[i] = random_unit() * 0x1p40, floats[i] = random_below(3) ? floats[i] : (double)i;
        else list[i] = random_below(9) && i ? list[i - 1] + 1 : start; /* runs, and jumps */
    }
}

/* 1 as a rule; numbers near it, powers of two, and the ends of what is allowed */
static pe_factor random_factor(void) {
    static const double some[] = {1.138629436111989, 0.5, 2, 0x1p-100, 0x1p100, 0x1.fffffffffffffp-1, 1 + 0x1p-24};
    size_t which = random_below(16);
    double by = which < 7 ? some[which] : which < 9 ? 1.6 + 1.5 * random_unit() : 1;
    return (pe_factor){by, random_below(2)};
}

static void table_case(const pe_kernels *k, size_t dim, pe_dtype t) {
    int64_t list[150];
    size_t n = 1 + random_below(sizeof list / sizeof list[0]), item = pe_itemsize(t);
    double shift = dim > 3 && random_below(3) == 0 ? 1 : 0;
    pe_wave w = {.base = random_below(3) ? 10000 : 0.01 + random_unit() * 0.009, .shift = shift, .scale = 1};
    if (pe_check_wave((int64_t)dim, &w).code) abort();
    pe_num *turns = malloc(w.pairs * sizeof *turns);
    pe_powers(PE_TURNS, w.base, w.denom, w.scale, w.pairs, turns);
    pe_table table = {k,       t,     (pe_layout)random_below(2),     random_below(3) == 0, dim,
                      w.pairs, turns, {PE_POS_RANGE, NULL, 0, false}, random_factor()};
    random_positions(&table.positions, list, n);
    bool stream = random_below(2);
    size_t row = (dim + (stream ? 0 : random_below(3))) * item, begin = random_below(n),
           end = begin + 1 + random_below(n - begin);
    exact_block out = exact_new((end - begin - 1) * row + dim * item, stream ? 0 : item * random_below(8));
    void *work = work_new(PE_TABLE_WORK);
    pe_table_rows(&table, begin, end, out.at, (ptrdiff_t)row, stream, work);
    for (size_t r = 0; r < end - begin; r++)
        for (size_t c = 0; c < dim; c++) {
            size_t i = table.layout == PE_HALF ? c % w.pairs : c / 2;
            bool second = table.layout == PE_HALF ? c >= w.pairs : c % 2;
            uint64_t got = 0, right = 0;
            if (c < 2 * w.pairs) {
                if ((c * 7 + r) % 5) continue; /* a fifth of the values will do */
                right = pe_exact(turns + i, pe_pos_at(&table.positions, begin + r), second != table.cos_first,
                                 table.factor, t);
            }
            memcpy(&got, out.at + r * row + c * item, item);
            CHECK(got == right, "table_%s_%s: dim %zu row %zu of %zu column %zu: %llx, not %llx", test_dtypes[t],
                  k->isa, dim, r, n, c, (unsigned long long)got, (unsigned long long)right);
        }
    for (size_t r = 0; r + 1 < end - begin; r++)
        for (size_t i = dim * item; i < row; i++) CHECK(out.at[r * row + i] == GUARD, "written between rows");
    exact_free(&out);
    free(work), free(turns);
}

/* x as an array of up to 4 axes with its axes in any order in memory, some reversed; out likewise */
typedef struct {
    size_t n;
    ptrdiff_t step;
} axis;
static exact_block lay_out(axis *axes, int count, size_t item, ptrdiff_t *start) {
    int order[5];
    ptrdiff_t reach = (ptrdiff_t)item;
    *start = 0;
    for (int i = 0; i < count; i++) {
        int j = (int)random_below((size_t)i + 1);
        order[i] = order[j], order[j] = i;
    }
    for (int i = 0; i < count; i++) {
        axis *a = axes + order[i];
        a->step = reach + (ptrdiff_t)(random_below(2) * item);
        reach += a->step * (ptrdiff_t)(a->n - 1);
        if (random_below(3) == 0) *start += a->step * (ptrdiff_t)(a->n - 1), a->step = -a->step;
    }
    return exact_new((size_t)reach, item * random_below(4));
}

static void run_units(const void *ctx, size_t begin, size_t end, void *work) { pe_apply_run(ctx, begin, end, work); }

static void apply_case(const pe_kernels *k, pe_dtype t) {
    size_t item = pe_itemsize(t), turning = 2 * random_below(20), before = random_below(3),
           dim = before + turning + random_below(3);
    if (dim == 0) return;
    int outer = (int)random_below(4);
    axis x_axes[5], out_axes[5];
    pe_apply job = {.fn = pe_rope_rows, .dim = dim, .item = item, .nloops = outer};
    size_t positions = 1, rows = 1;
    for (int i = 0; i < outer; i++) x_axes[i].n = out_axes[i].n = 1 + random_below(random_below(4) ? 6 : 140);
    x_axes[outer].n = out_axes[outer].n = dim;
    for (int i = 0; i < outer; i++) rows *= x_axes[i].n;
    if (rows > 3000) return;
    ptrdiff_t x_start, out_start;
    exact_block x = lay_out(x_axes, outer + 1, item, &x_start), out = lay_out(out_axes, outer + 1, item, &out_start);
    fill_random(x.at, x.bytes / item, t);
    bool in_place = random_below(3) == 0;
    if (in_place) {
        exact_free(&out);
        out = exact_new(x.bytes, x.skip), memcpy(out.at, x.at, x.bytes);
        memcpy(out_axes, x_axes, sizeof x_axes), out_start = x_start;
    }
    for (int i = outer; i-- > 0;) {
        job.loops[i] = (pe_loop){x_axes[i].n, x_axes[i].step, out_axes[i].step, 0};
        if (random_below(2) && positions * x_axes[i].n < 3000)
            job.loops[i].pos = x_axes[i].n > 1 ? positions : 0, positions *= x_axes[i].n;
    }
    pe_loop given[4];
    memcpy(given, job.loops, sizeof given);
    int64_t list[3000];
    pe_dtype compute = t == PE_F64 ? PE_F64 : PE_F32;
    pe_num turns[20];
    if (turning) pe_powers(PE_TURNS, 10000, (double)turning / 2, 1, turning / 2, turns);
    pe_table table = {k,         compute, PE_HALF, false, turning, turning / 2, turns, {PE_POS_RANGE, NULL, 0, false},
                      {1, false}};
    random_positions(&table.positions, list, positions);
    pe_rope rope = {k, t, (pe_layout)random_below(2), dim, before, turning, random_below(2)};
    job.x = (in_place ? out.at : x.at) + x_start, job.out = out.at + out_start;
    job.x_step = x_axes[outer].step, job.out_step = out_axes[outer].step;
    if (dim == 1) job.x_step = job.out_step = (ptrdiff_t)item;
    pe_apply_table(&job, &table);
    job.ctx = &rope;
    size_t units = pe_apply_units(&job), threads = 1 + random_below(3),
           work_bytes = (pe_apply_work(&job) + 63) / 64 * 64;
    char *work = work_new(threads * work_bytes);
    for (size_t i = 1; i < threads; i++) memset(work + i * work_bytes, 0, 64);
    pe_parallel(run_units, &job, 0, units, (int)threads, work, work_bytes);

    /* one row at a time */
    char *a = malloc(dim * item), *b = malloc(dim * item), *got = malloc(dim * item),
         *sines = work_new(8 * (turning + 1));
    void *one = work_new(PE_TABLE_WORK);
    size_t index[4] = {0};
    for (size_t r = 0; r < rows; r++) {
        const char *from = x.at + x_start;
        char *to = out.at + out_start;
        size_t p = 0;
        for (int i = 0; i < outer; i++)
            from += (ptrdiff_t)index[i] * given[i].x, to += (ptrdiff_t)index[i] * given[i].out,
                p += index[i] * given[i].pos;
        for (size_t c = 0; c < dim; c++) {
            memcpy(a + c * item, from + (ptrdiff_t)c * x_axes[outer].step, item);
            memcpy(got + c * item, to + (ptrdiff_t)c * out_axes[outer].step, item);
        }
        pe_table_rows(&table, p, p + 1, sines, 0, false, one);
        pe_rope_rows(&rope, &(pe_rows){a, sines, b, 0, 0, 0, 1, false});
        size_t at = first_difference(b, got, dim, t);
        CHECK(at == dim, "rope_%s_%s: row %zu of %zu (position %zu), channel %zu of %zu", test_dtypes[t], k->isa, r,
              rows, p, at, dim);
        CHECK(memcmp(a, b, before * item) == 0 && memcmp(a + (before + turning) * item, b + (before + turning) * item,
                                                         (dim - before - turning) * item) == 0,
              "channels that do not turn");
        for (int i = outer; i-- > 0;) {
            if (++index[i] < given[i].n) break;
            index[i] = 0;
        }
    }
    free(a), free(b), free(got), free(sines), free(one), free(work);
    exact_free(&x), exact_free(&out);
}

int main(void) {
    for (int isa = 0; isa < PE_NISA; isa++) {
        const pe_kernels *k = pe_kernels_for((pe_isa)isa);
        if (!k) continue;
        for (int t = 0; t < PE_NDTYPE; t++) {
            for (size_t dim = 1; dim <= 140; dim++) table_case(k, dim, (pe_dtype)t);
            table_case(k, 256, (pe_dtype)t), table_case(k, 384, (pe_dtype)t);
            for (int i = 0; i < 600; i++) apply_case(k, (pe_dtype)t);
        }
    }
    return test_end("table");
}

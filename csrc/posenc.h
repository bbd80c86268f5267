/* posenc.h - the C contract: types, statuses, and one prototype with one comment for every function that
 * crosses a file. Plain C11 that knows no Python: no allocation, no globals, no I/O, no libm. */
#ifndef POSENC_H
#define POSENC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint16_t pe_f16;
typedef uint16_t pe_bf16;
typedef float pe_f32;
typedef double pe_f64;
typedef enum { PE_F16, PE_BF16, PE_F32, PE_F64, PE_NDTYPE } pe_dtype;
typedef enum { PE_SCALAR, PE_AVX2, PE_NISA } pe_isa;
typedef enum { PE_INTERLEAVED, PE_HALF } pe_layout;

/* What can be wrong with sizes and numbers. check.c finds it, csrc/python/raise.c words it. */
typedef enum {
    PE_OK,
    PE_ERR_TOO_BIG,    /* a product of sizes overflows                      -> MemoryError */
    PE_ERR_DIM,        /* got: a width that must be at least `want`         -> ValueError */
    PE_ERR_ODD,        /* got: a width that must be even                    -> ValueError */
    PE_ERR_WIDTH,      /* got: a width that must be at most `want`          -> ValueError */
    PE_ERR_BASE,       /* not a finite number above zero                    -> ValueError */
    PE_ERR_SHIFT,      /* not a finite number below dim / 2                 -> ValueError */
    PE_ERR_SCALE,      /* not a finite number other than zero               -> ValueError */
    PE_ERR_EXTREME,    /* frequencies beyond 2^60 turns a position          -> ValueError */
    PE_ERR_NOT_FINITE, /* a NaN or infinite position                        -> ValueError */
    PE_ERR_POSITION    /* a position beyond 2^64 in magnitude               -> ValueError */
} pe_code;
typedef struct {
    pe_code code;
    const char *arg; /* the argument's public name */
    int64_t got, want;
    double real; /* what came, where that is no integer */
} pe_status;

/* --- frequencies and positions (freqs.c, exact.c) ---------------------------------------------------- */

/* A positive number to 256 bits: 0.mant * 2^exp, the top bit of mant[3] set. All zero: the number 0.
 * As a frequency it counts turns (not radians) per position, so that the integer part may be dropped: tables use it in
 * fixed point, 64 integer bits in fixed[3] and 192 bits of fraction below, truncated (0 for numbers from 2^64). */
typedef struct {
    uint64_t mant[4];
    int64_t exp;
    uint64_t fixed[4];
} pe_num;

/* A position, exactly: (-1)^neg * mag * 2^-shift. */
typedef struct {
    uint64_t mag;
    uint32_t shift;
    bool neg;
} pe_pos;

/* Positions as they come: first + i, or an array of int64, uint64 or float64. */
typedef enum { PE_POS_RANGE, PE_POS_I64, PE_POS_U64, PE_POS_F64 } pe_pos_kind;
typedef struct {
    pe_pos_kind kind;
    const void *data; /* NULL for PE_POS_RANGE */
    int64_t first;    /* PE_POS_RANGE: the first position */
    bool negate;      /* all of them with the other sign (a negative scale) */
} pe_positions;

pe_pos pe_pos_at(const pe_positions *p, size_t i);
/* whether positions i .. i + n are whole numbers, each one more than the last */
bool pe_pos_is_run(const pe_positions *p, size_t i, size_t n);

/* out[i] = start * ratio^i, where ratio = base^(-1/denom) or its inverse: 256 bits, relative error below
 * (i + 4) 2^-254. start is 1, scale / (2 pi) or 2 pi. */
typedef enum { PE_RADIANS, PE_TURNS, PE_WAVELENGTHS } pe_unit;
void pe_powers(pe_unit unit, double base, double denom, double scale, size_t count, pe_num *out);
/* turns from angular frequencies that are given as float64, radians per position (negative: not allowed) */
void pe_turns_from_f64(const double *inv_freq, size_t count, pe_num *out);
double pe_num_to_f64(const pe_num *x); /* correctly rounded */

/* A number from 2^-100 to 2^100 that multiplies, or divides, what a plan turns. */
typedef struct {
    double by;
    bool divides;
} pe_factor;

/* Correctly rounded factor times the sine (want_cos = false) or cosine of 2 pi * turns * p, as the bits of
 * `type`. The slow, certain path: about 2 microseconds a value, one value in a hundred thousand comes here. */
uint64_t pe_exact(const pe_num *turns, pe_pos p, bool want_cos, pe_factor factor, pe_dtype type);

/* --- checks (check.c): shared by the binding and by tests ----------------------------------------------- */

/* *out = the product of n sizes times item; PE_ERR_TOO_BIG, named arg, beyond PTRDIFF_MAX */
pe_status pe_check_size(const char *arg, const int64_t *sizes, size_t n, size_t item, size_t *out);
/* The frequencies of a sinusoidal table: w_i = base^(-i / denom), i < pairs; dim may exceed or miss 2 pairs by one. */
typedef struct {
    double base, shift, scale;
    double denom;
    size_t pairs;
} pe_wave;
pe_status pe_check_wave(int64_t dim, pe_wave *w);
pe_status pe_check_turns(const pe_num *turns, size_t n); /* within 2^60 turns a position */
pe_status pe_check_positions(const pe_positions *p, size_t n);
pe_status pe_check_rotary(int64_t width, int64_t rotary_dim, int64_t start);

/* --- kernels (kernels/, one instance per ISA and dtype) ------------------------------------------------- */

/* Where a table's two functions go: element k of row j of the first one stands at first + j * first_row (in bytes)
 * + k elements, or, in pairs, + 2k elements with the second one behind it (second is then not used). */
typedef struct {
    char *first, *second;
    ptrdiff_t first_row, second_row;
    bool pairs, cos_first;
    bool stream; /* past the caches; the addresses are then multiples of 16 */
    double eps;  /* the true value is within this of the one computed */
} pe_dest;

enum { PE_TILE = 64, PE_BLOCK = 32 }; /* frequencies and rows done together */
enum { PE_STREAM_BYTES = 4 << 20 };   /* larger results are written past the caches */
typedef size_t pe_sinusoidal_fn(const double *anchor, const double *offsets, size_t n, size_t rows, const pe_dest *dest,
                                uint32_t *suspects);
typedef void pe_sincos_fn(const uint64_t *phase, size_t n, double *rotor);
typedef pe_sincos_fn pe_sincos_dd_fn;
typedef void pe_rotate_fn(const double *a, const double *b, size_t count, size_t n, double *out);
typedef void pe_split_fn(double *rotor, size_t count, size_t n);

/* rows rows: row j is x + j * x_row, out + j * out_row, table + j * table_row (bytes) */
typedef struct {
    const char *x, *table;
    char *out;
    ptrdiff_t x_row, out_row, table_row;
    size_t rows;
    bool stream; /* past the caches: rows of out begin at multiples of 16 bytes, and out is not x */
} pe_rows;
typedef void pe_add_fn(const pe_rows *r, size_t dim);
typedef void pe_embed_fn(const char *weight, ptrdiff_t step, const void *table, double scale, size_t dim, void *out);
typedef void pe_rope_fn(const pe_rows *r, size_t pairs, pe_layout layout, bool inverse);

/* out[i], numbers of the instance's dtype: -slope |first + i|, above 0 -later (first + i) */
typedef void pe_alibi_fn(double slope, double later, int64_t first, size_t n, void *out);
/* row j, of `bytes` bytes, from from + j * from_row to to + j * to_row, past the caches */
typedef void pe_expand_fn(const char *from, ptrdiff_t from_row, char *to, ptrdiff_t to_row, size_t bytes, size_t rows);

#include "kernels.def"
#define PE_FIELD(name, bound) pe_##name##_fn *name[PE_NDTYPE];
#define PE_SHARED_FIELD(name, bound) pe_##name##_fn *name;
typedef struct {
    const char *isa;
    size_t lanes; /* doubles in a vector */
    PE_KERNELS(PE_FIELD)
    PE_SHARED(PE_SHARED_FIELD)
} pe_kernels;
extern const pe_kernels pe_kernels_scalar, pe_kernels_avx2;
const pe_kernels *pe_kernels_for(pe_isa isa);           /* NULL when the build or the CPU lacks it */
const pe_kernels *pe_kernels_named(const char *name);   /* NULL: the best one */

/* --- tables (table.c) ------------------------------------------------------------------------------------ */

/* A table of sines and cosines: rows are positions, columns are dim numbers of `type` in the layout:
 * 2 * pairs columns; one less: the last pair has only its first function; one more: a last column of zeros. */
typedef struct {
    const pe_kernels *kernels;
    pe_dtype type;
    pe_layout layout;
    bool cos_first;
    size_t dim, pairs;
    const pe_num *turns; /* pairs of them */
    pe_positions positions;
    pe_factor factor;    /* of all of them */
} pe_table;

/* Writes rows [begin, end) to out, row_bytes apart. Correctly rounded: the same bits however rows are grouped.
 * work: PE_TABLE_WORK bytes, aligned to 64, the first 64 of them zero before the first
 * call; calls with the same table and work space share what they prepare. */
enum { PE_TABLE_WORK = 64 + 8 * 4 * PE_TILE * (PE_BLOCK + 16 + 4) + 4 * PE_TILE * PE_BLOCK };
void pe_table_rows(const pe_table *t, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, bool stream,
                   void *work);

/* What makes rows of a table for pe_apply: rows [begin, end), row_bytes apart. */
typedef void pe_make_fn(const void *maker, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, void *work);
pe_make_fn pe_table_make; /* maker: a pe_table */

/* The table of a rotary plan: a row is sin[pairs], cos[pairs], of `type` (rotors.c). Pairs may follow different axes of
 * the positions: part a makes those of axis a, and pairs_of lists them, part by part. Parts are float64 with xPos. */
typedef struct {
    pe_dtype type;
    size_t pairs, nparts;
    const pe_table *parts; /* PE_HALF */
    const int64_t *pairs_of;
    /* xPos: times exp(decay[pair] * (p - center)), the exponent kept within +-limit; NULL: not */
    const double *decay; /* pairs of them, then as many low parts */
    double center, limit, sign; /* sign -1: divided by it */
} pe_rotors;
pe_make_fn pe_rotors_make;
size_t pe_rotors_row(const pe_rotors *r); /* bytes of work space for each row, beyond PE_TABLE_WORK */

/* A table that is there already, as sines and cosines of any strides (bytes): rows are copied. maker: a pe_stored */
typedef struct {
    const char *of[2]; /* sines, cosines: `pairs` numbers of item bytes a row, `step` apart */
    ptrdiff_t step[2];
    size_t pairs, item;
    int ndim; /* rows are counted in C order over these axes */
    const ptrdiff_t *dims, *strides[2];
} pe_stored;
pe_make_fn pe_stored_make;

/* --- the same position for many rows (apply.c) ---------------------------------------------------------- */

/* x and out as rows of `dim` numbers, over loops; a loop moves along x, out and the positions (0: it does not). */
enum { PE_MAX_LOOPS = 64, PE_MAX_AXES = 8 };
typedef struct {
    size_t n;
    ptrdiff_t x, out; /* bytes */
    size_t pos; /* positions */
} pe_loop;

typedef void pe_rows_fn(const void *ctx, const pe_rows *rows);

typedef struct pe_apply {
    pe_make_fn *make; /* row i of its table, of table_row bytes, serves position i */
    const void *maker;
    size_t table_row, make_work, make_row; /* work space to make rows: make_work bytes, and make_row for each */
    pe_rows_fn *fn; /* applies it */
    const void *ctx;
    const char *x;
    char *out;
    size_t dim, item; /* a row: dim numbers of item bytes, */
    ptrdiff_t x_step, out_step; /* this far apart */
    /* set by pe_apply_units: */
    bool stream;
    size_t chunk, chunks, parts;
    int chunked, split; /* the loop cut into chunks of one table, and the one cut into parts; -1: none */
    const struct pe_apply *also; /* set by pe_apply_join: other rows that the same tables serve */
    int nloops;
    pe_loop loops[PE_MAX_LOOPS];
} pe_apply;
void pe_apply_init(pe_apply *a, pe_make_fn *make, const void *maker, pe_rows_fn *fn, const void *ctx); /* zeros else */

/* Orders the loops and cuts the work into units (returned), each a table of at most PE_CHUNK positions applied to about
 * a megabyte. Units are independent. */
enum { PE_CHUNK = 256 };
size_t pe_apply_units(pe_apply *a);
/* After pe_apply_units of both: has b, whose table is the same, done with a, and returns the units of both; 0: it cannot. */
size_t pe_apply_join(pe_apply *a, pe_apply *b);
size_t pe_apply_work(const pe_apply *a);
void pe_apply_run(const pe_apply *a, size_t begin, size_t end, void *work);

/* the plans of rotary embeddings: which channels turn, and the table that turns them (rope.c) */
typedef struct {
    const pe_kernels *kernels;
    pe_dtype type;
    pe_layout layout;
    size_t dim, start, rotary_dim; /* channels start .. start + rotary_dim of dim turn; the others are copied */
    bool inverse;
} pe_rope;
pe_rows_fn pe_rope_rows; /* ctx: a pe_rope */
void pe_apply_table(pe_apply *a, const pe_table *t); /* sets make, maker, table_row, make_work */

/* --- tokens to rows (embed.c) --------------------------------------------------------------------------------- */

/* out = weight[id] * scale + the row of the position, for every id; zeros for the padding token */
typedef struct {
    const pe_kernels *kernels;
    pe_dtype type;
    size_t dim, tokens; /* weight has one row a token, and numbers weight_step bytes apart */
    const char *weight;
    ptrdiff_t weight_row, weight_step;
    double scale;
    int64_t padding; /* -1: none */
    /* for pe_embed_range only: ids in C order over axes; the learned table, or NULL, with the row of each position */
    const int64_t *ids;
    char *out;
    const char *encoding;
    size_t places;
    ptrdiff_t encoding_row;
    pe_positions positions;
    const pe_loop *axes;
    int naxes;
} pe_embed;
pe_rows_fn pe_embed_rows; /* ctx: a pe_embed; a row of x begins with its id, an int64 */
void pe_embed_range(const void *embed, size_t begin, size_t end, void *work); /* a pe_range_fn; work is not used */
size_t pe_first_outside(const int64_t *ids, size_t n, size_t rows); /* the first not in 0 .. rows - 1, or n */

/* --- a bias from its profile (expand.c) --------------------------------------------------------------------- */

typedef struct {
    size_t n;
    ptrdiff_t from, to; /* bytes */
} pe_expand_loop;
typedef struct {
    const pe_kernels *kernels;
    const char *from; /* the number that goes to the first element of the result, */
    char *to;
    size_t item; /* of this many bytes */
    pe_expand_loop loops[3];
    /* set by pe_expand_units: */
    size_t parts; /* of a line, the innermost loop */
    bool whole, stream; /* a line is contiguous; it goes past the caches */
} pe_expand;
/* Orders the loops; returns the number of units, which are independent: lines, or parts of long ones. No loop is empty. */
size_t pe_expand_units(pe_expand *e);
void pe_expand_run(const void *expand, size_t begin, size_t end, void *work); /* a pe_range_fn; work is not used */
void pe_copy(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step, size_t n, size_t item); /* n numbers */

/* --- threads (threads.c) ---------------------------------------------------------------------------------- */

/* fn(ctx, lo, hi, work + i * work_bytes) on `threads` threads at once, over [begin, end) in equal parts; returns when
 * all have. A thread that cannot be started is done without. */
typedef void pe_range_fn(const void *ctx, size_t begin, size_t end, void *work);
void pe_parallel(pe_range_fn *fn, const void *ctx, size_t begin, size_t end, int threads, char *work,
                 size_t work_bytes);

static inline size_t pe_itemsize(pe_dtype t) { return t == PE_F64 ? 8 : t == PE_F32 ? 4 : 2; }

#endif

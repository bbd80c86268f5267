/* threads.c - rows split over threads that end before the call does: nothing to keep, nothing to fork badly.
 * Starting a thread costs some 15 microseconds; callers give it milliseconds. */
#include "posenc.h"
#include <pthread.h>

enum { MAX_THREADS = 64 };
typedef struct {
    pe_range_fn *fn;
    const void *ctx;
    size_t begin, end;
    void *work;
} part;

static void *run(void *p) {
    const part *a = p;
    a->fn(a->ctx, a->begin, a->end, a->work);
    return NULL;
}

void pe_parallel(pe_range_fn *fn, const void *ctx, size_t begin, size_t end, int threads, char *work,
                 size_t work_bytes) {
    part parts[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    bool started[MAX_THREADS] = {false};
    size_t n = end - begin, count = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : (size_t)threads;
    if (count > n) count = n;
    for (size_t i = 0; i < count; i++) {
        size_t lo = begin + n / count * i + (i < n % count ? i : n % count);
        size_t hi = lo + n / count + (i < n % count);
        parts[i] = (part){fn, ctx, lo, hi, work + i * work_bytes};
    }
    for (size_t i = 1; i < count; i++) started[i] = pthread_create(&ids[i], NULL, run, &parts[i]) == 0;
    for (size_t i = 0; i < count; i++)
        if (!started[i]) run(&parts[i]);
    for (size_t i = 1; i < count; i++)
        if (started[i]) pthread_join(ids[i], NULL);
}

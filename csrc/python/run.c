/* run.c - the long part of a call: no GIL, threads that are joined, a look at the signals every few milliseconds. */
#include "core.h"
#include <time.h>

enum { QUICK_BYTES = 1 << 15, THREADED_BYTES = 1 << 20, FIRST_BATCH = 1 << 20, TARGET_MS = 12 };

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int pe_run(pe_state *s, pe_range_fn *fn, const void *ctx, size_t units, size_t unit_bytes, size_t work_bytes) {
    if (units == 0) return 0;
    work_bytes = (work_bytes + 63) / 64 * 64;
    if (unit_bytes == 0) unit_bytes = 1;
    int threads = units > 1 && units >= THREADED_BYTES / unit_bytes ? s->threads : 1;
    if ((size_t)threads > units) threads = (int)units;
    bool quick = units < QUICK_BYTES / unit_bytes;         /* done sooner than another thread could take the GIL */
    char *block = malloc((size_t)threads * work_bytes + 64);
    if (!block) return pe_raise_memory("posenc", "work space");
    char *work = block + (64 - (uintptr_t)block % 64) % 64;
    for (int i = 0; i < threads && work_bytes; i++) memset(work + (size_t)i * work_bytes, 0, 64);
    size_t batch = FIRST_BATCH / unit_bytes * (size_t)threads;
    int status = 0;
    for (size_t at = 0; at < units && status == 0;) {
        if (batch < (size_t)threads) batch = (size_t)threads;
        size_t end = batch < units - at ? at + batch : units;
        double t0 = end < units ? milliseconds() : 0;    /* the last batch tells nothing */
        PyThreadState *saved = quick ? NULL : PyEval_SaveThread();
        if (threads > 1) pe_parallel(fn, ctx, at, end, threads, work, work_bytes);
        else fn(ctx, at, end, work);
        if (!quick) PyEval_RestoreThread(saved);
        if (end < units) {
            double ms = milliseconds() - t0;
            status = PyErr_CheckSignals();
            if (ms < TARGET_MS / 2.0) batch *= 4;
            else if (ms > 2 * TARGET_MS) batch /= 2;
        }
        at = end;
    }
    free(block);
    return status;
}

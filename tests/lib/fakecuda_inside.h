/* What the files of the driver without a device share (see fakecuda.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKECUDA_INSIDE_H
#define FAKECUDA_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "fakecuda.h"

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_IMPLICIT = 906
};

struct context {
    int device;
};
struct stream {
    struct context *context;
    bool blocking, capturing, broken;
};
struct work {
    unsigned long long number;
    struct stream *stream; /* NULL: the stream of the context that waits for all blocking ones */
    struct context *context;
    void (*kernel)(const struct work *w);
    void *to;
    const void *from;
    unsigned long long at[3];
    double value;
    size_t bytes;
    unsigned threads; /* of a kernel in PTX: to is its program, and bytes the number of groups */
    bool needed;
};

/* What the driver forbids while a graph is captured, unless the thread is in the relaxed mode. */
bool fakecuda_is_unsafe(void);

extern pthread_mutex_t fakecuda_lock; /* of the work that is queued */
extern int fakecuda_sticky;           /* the error that all calls return; OK: none */
extern int fakecuda_owner;            /* the process that has made the first call */

/* Bytes that other processes have, if they share the device; own: those of this process. */
size_t fakecuda_of_others(size_t own);

/* Errors that a test asks for.  The code that a call has to return at once; OK: none. */
int fakecuda_begins(const char *call);
bool fakecuda_flips(size_t bytes);
bool fakecuda_is_wrong(void);
unsigned fakecuda_first_group(unsigned n);
#define BEGIN()                                                                                    \
    do {                                                                                           \
        int begins_ = fakecuda_begins(__func__);                                                   \
        if (begins_ != OK)                                                                         \
            return begins_;                                                                        \
    } while (0)

/* Memory of the device, for the driver; NULL: there is none. */
char *fakecuda_real_of(CUdeviceptr p, size_t bytes);
/* The block of memory that p is in, for the driver; NULL: there is none. */
char *fakecuda_block(CUdeviceptr p, CUdeviceptr *first, size_t *bytes);

/* Host memory: the pages that were registered there, or the address itself; NULL: the bytes begin
 * in a registered range and leave it. */
char *fakecuda_host_of(const void *p, size_t bytes);
/* Whether host memory at p is registered. */
bool fakecuda_is_registered(const void *p);

/* Copy between such addresses; what has no pages gets none. */
void fakecuda_copy(void *to, const void *from, size_t bytes);

/* The context of this thread; NULL: none. */
struct context *fakecuda_current(void);
/* The one that names memory of the host that is registered. */
struct context *fakecuda_primary(void);

/* The kernel of this name in a text; NULL: there is none, or the text is not understood. */
struct program *fakecuda_ptx(const char *text, const char *name);
void fakecuda_run_ptx(const struct work *w);
extern unsigned long long fakecuda_launches; /* of kernels in PTX */

/* Queue work; the lock is held. */
void fakecuda_add(struct work w);

#endif

/* The drivers of devices that the program has loaded: where memory is, contexts, streams, errors.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * HIP has the same calls as the driver of CUDA here (hip.h), so "driver" and "CUDA" stand for both.
 * The driver is asked about an address at each use: memory that was freed and allocated again has
 * the same address, so a table of our own would lie.  An answer takes 50 to 150 ns.
 *
 * An error in a kernel ends the context: each later call returns the error, and only the end of the
 * process helps.  So ftk_driver_failed() follows each error of a call. */
#ifndef FTK_DRIVER_H
#define FTK_DRIVER_H

#include <stdbool.h>

#include "cuda_sums.h"
#include "memory_kind.h"

enum { FTK_DRIVERS = 2 }; /* that a program may have */

/* Where memory is. */
struct ftk_driver_place {
    const struct ftk_cuda *cuda;
    void *context; /* NULL: of the device's primary context */
    int device;
};

/* The streams of this process, one for each context in use, and events behind the last copies out
 * of each.  They are never destroyed: contexts outlive ftkit_close(). */
struct ftk_driver_stream {
    const struct ftk_cuda *cuda;
    void *context, *stream;
    void *behind;                  /* of snapshots; NULL: not made yet */
    void *event[FTK_MEMORY_AHEAD]; /* NULL: not made yet */
    struct ftk_cuda_sums sums;     /* of one thread at a time, as the copies that are begun */
};

/* Look for the drivers, which takes some microseconds for each one that is not there; false: there
 * is none.  Other functions know those that were found. */
bool ftk_driver_look(void);
/* The driver i of FTK_DRIVERS; NULL: not found. */
const struct ftk_cuda *ftk_driver_known(int i);

/* Whether a driver owns the memory at p now, and where that is. */
bool ftk_driver_owns(const void *p, struct ftk_driver_place *at);
/* Make the context of the memory current; every success needs ftk_driver_leave(). */
int ftk_driver_enter(const void *p, struct ftk_driver_place *at);
void ftk_driver_leave(const struct ftk_driver_place *at);
/* After an error of a call: has the context, which is current, ended?  FTKIT_ERR_IO,
 * with a text. */
int ftk_driver_failed(const struct ftk_driver_place *at, const char *call, int code);
/* Whether a context has ended. */
bool ftk_driver_is_lost(void);

/* While the program captures a graph, a thread may pin or allocate memory and load kernels in the
 * relaxed mode only.  Returns the mode for ftk_driver_restrict(). */
int ftk_driver_relax(const struct ftk_driver_place *at);
void ftk_driver_restrict(const struct ftk_driver_place *at, int mode);

/* The stream of the current context, made at its first use. */
int ftk_driver_stream_of(const struct ftk_driver_place *at, struct ftk_driver_stream **out);
/* Number i of the streams in use; NULL: there are fewer. */
const struct ftk_driver_stream *ftk_driver_stream_at(int i);

#endif

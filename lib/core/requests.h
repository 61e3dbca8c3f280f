/* Requests of `ftkit run` to the ranks of its node: a file of the run that both map.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * `ftkit run` takes SIGUSR1 for a durable set, and other signals for a halt.  A signal that mpirun
 * hands on reaches the program where the program has a handler of its own, so the ranks would not
 * notice the request.  They look at this page in each vote (set/steer.c).  Ranks of other nodes do
 * not see the page; their vote has the request of those that do. */
#ifndef FTK_REQUESTS_H
#define FTK_REQUESTS_H

#include <stdatomic.h>

#include "ftk.h"

#define FTK_REQUESTS_FILE "requests"

/* Of struct ftk_requests. */
enum {
    FTK_OWN_USR1 = 1, /* the program has a handler of its own for the signal */
    FTK_OWN_USR2 = 2,
    FTK_OWN_ALL = 4 /* checkpoint.signals is false */
};

struct ftk_requests {
    /* by `ftkit run` */
    _Atomic int sets;  /* number of requests for a durable set */
    _Atomic int halts; /* number of requests for a halt */
    _Atomic int sig;   /* the signal of the last one */
    /* by the ranks, since the begin of the attempt */
    _Atomic int readers; /* 1: a rank looks at the page */
    _Atomic int own;     /* FTK_OWN_... */
};

#endif

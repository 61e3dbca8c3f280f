/* Sends that ftkit leaves (see left_send.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/left_send.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct left {
    MPI_Request req;
    void *memory;
    struct left *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct left *all;

/* An error ends a send, too. */
static bool is_over(MPI_Request *req)
{
    int done = 0;
    return *req == MPI_REQUEST_NULL || MPI_Test(req, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS
           || done;
}

void ftk_look_at_left_sends(void)
{
    pthread_mutex_lock(&lock);
    for (struct left **at = &all; *at;) {
        struct left *l = *at;
        if (!is_over(&l->req)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        free(l->memory);
        free(l);
    }
    pthread_mutex_unlock(&lock);
}

void ftk_leave_send(MPI_Request *req, void *memory)
{
    MPI_Request mine = *req;
    *req = MPI_REQUEST_NULL; /* before its memory, which may be this memory */
    ftk_look_at_left_sends();
    if (is_over(&mine)) {
        free(memory);
        return;
    }
    struct left *l = malloc(sizeof *l);
    if (!l)
        return; /* MPI keeps both */
    pthread_mutex_lock(&lock);
    *l = (struct left){ mine, memory, all };
    all = l;
    pthread_mutex_unlock(&lock);
}

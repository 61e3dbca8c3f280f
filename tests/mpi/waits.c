/* The ranks exchange no messages.  All ranks call ftkit_wait() in every fifth step.  A rank that
 * repeats such a call must not take part in a new one.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { EVERY = 5, STEP_US = 4000 };

static uint64_t *state; /* the hash; calls of ftkit_wait() */

static void step(struct foreign *f)
{
    usleep(STEP_US);
    state[0] = foreign_mix(state[0], (uint64_t)f->step);
}

static int after(struct foreign *f)
{
    if (f->step % EVERY != 0)
        return FTKIT_OK;
    const int rc = ftkit_wait(f->ft);
    state[1] += rc == FTKIT_OK;
    return rc;
}

static int prepare(struct foreign *f)
{
    f->after = after;
    state = foreign_state(f, 2);
    return !state;
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    const uint64_t wrong = state[1] != (uint64_t)(f->steps / EVERY);
    return foreign_counted(f, state[0], wrong, hash, detail, room);
}

static void release(void)
{
    free(state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "waits",
        .steps = 100,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_run(argc, argv, &app, foreign_loop);
}

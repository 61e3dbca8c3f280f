/* The ranks exchange no messages.  All ranks call ftkit_wait() in every fifth step.  A rank that
 * repeats such a call must not take part in a new one.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { EVERY = 5, STEP_US = 4000 };

static uint64_t *state; /* the hash; calls of ftkit_wait() */

static int prepare(struct foreign *f)
{
    state = foreign_state(f, 2);
    return !state;
}

static void step(struct foreign *f)
{
    usleep(STEP_US);
    state[0] = foreign_mix(state[0], (uint64_t)f->step);
}

/* After a rollback in ftkit_wait() the next call is ftkit_checkpoint(). */
static int loop(struct foreign *f)
{
    for (;;) {
        int rc = ftkit_checkpoint(f->ft);
        if (foreign_fatal(rc))
            return foreign_complain(f, "checkpoint", rc);
        if (f->step >= f->steps) {
            if (foreign_end(f, &rc))
                return rc;
            continue;
        }
        foreign_watch(f);
        (void)FTK_FAULT("app.step");
        step(f);
        f->step++;
        if (f->step % EVERY != 0)
            continue;
        rc = ftkit_wait(f->ft);
        if (rc != FTKIT_OK && rc != FTKIT_ROLLED_BACK)
            return foreign_complain(f, "wait", rc);
        state[1] += rc == FTKIT_OK;
    }
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
    return foreign_run(argc, argv, &app, loop);
}

/* What the programs in the style of other people's MPI codes have in common: options,
 * the loop, hashes, the result line.  All that they know of ftkit is in here; the
 * programs themselves have communicators, datatypes and persistent requests that are
 * made once, before ftkit_recover(), and no error handling but the end of a loop that
 * polls.
 *
 *   PROGRAM [-n STEPS] [-s SIZE] [-o RESULT] [-w FILE] [-m VARIANT] [-c CONFIG] [-i FILE] [-r]
 *
 * -o: rank 0 writes a line "OK step S hash H detail", or BAD for OK and exit code 1.
 * -w: every rank adds a line "rank step" to FILE.<rank> when a step begins, so that one
 * can see who went back.  -i: every rank adds "line MESSAGES BYTES" of its log to FILE.<rank>
 * behind its first set, and "end MESSAGES BYTES" behind ftkit_finish(), then "apart LATE EARLY
 * DETERMINANTS", of lines apart, and "replay SECONDS FORWARD CALLS CATCH_UP".
 * -r: what depends on the communicator is made in the callback of ftkit_on_repair(), and
 * tracked: failures are survived by a rollback of all ranks, which these programs are otherwise
 * not written for.
 *
 * Fault points: app.step at the top of a step, app.mid in the middle of its
 * communication, app.inflight while something is under way or an exchange is half done;
 * each program says how often a step passes them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_H
#define FOREIGN_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/ftk.h"
#include "ftkit.h"

struct foreign {
    int steps, size, remake;
    const char *out, *watch, *config, *variant, *info;
    const struct foreign_app *app;
    int (*loop)(struct foreign *f); /* of ranks that are at different steps; or NULL */
    int (*after)(
        struct foreign *f); /* calls of ftkit behind each step, set by prepare(); or NULL */
    ftkit_ctx *ft;
    MPI_Comm comm;
    int rank, nranks, plane;
    int step; /* steps done, registered: with an own loop, of each rank */
    FILE *log;
    char line[256]; /* the result */
    bool good;
};

struct foreign_app {
    const char *name;
    int steps, size;                   /* when not given */
    int (*prepare)(struct foreign *f); /* local: memory, beginning, regions */
    /* collective: what depends on the communicator; NULL when nothing does */
    int (*connect)(struct foreign *f);
    void (*disconnect)(void); /* may find only some of it; or NULL */
    void (*step)(struct foreign *f);
    /* collective: on rank 0 the hash and what else belongs into the result line; on
     * every rank whether all is well */
    bool (*verdict)(struct foreign *f, uint64_t *hash, char *detail, size_t room);
    void (*release)(void);
};

static inline uint64_t foreign_mix(uint64_t a, uint64_t b)
{
    return XXH3_64bits_withSeed(&a, sizeof a, b);
}

/* The number of the variant among n names; the first one if no variant is given; -1: none. */
static inline int foreign_variant(const struct foreign *f, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!f->variant || strcmp(names[i], f->variant) == 0)
            return (int)i;
    return -1;
}

/* Part i of n items in p parts that differ by at most one: its length. */
static inline int foreign_block(int n, int p, int i, int *start)
{
    int first = n * i / p;
    if (start)
        *start = first;
    return n * (i + 1) / p - first;
}

/* Registered words of a rank, zeros behind a first one that no other rank has; NULL: an error. */
static inline uint64_t *foreign_state(const struct foreign *f, size_t words)
{
    uint64_t *state = calloc(words, sizeof *state);
    if (!state || ftkit_register(f->ft, "state", state, words, MPI_UINT64_T) != FTKIT_OK) {
        free(state);
        return NULL;
    }
    *state = foreign_mix((uint64_t)f->rank, 1);
    return state;
}

/* What a value adds to the hash of a global array, whoever has it. */
static inline uint64_t foreign_cell(size_t where, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return foreign_mix(bits, where);
}

/* To the hash of a distributed array on rank 0: its parts added up, with the step. */
static inline uint64_t foreign_total(const struct foreign *f, uint64_t part)
{
    uint64_t sum = 0;
    MPI_Reduce(&part, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, f->comm);
    return foreign_mix(sum, (uint64_t)f->step);
}

/* The verdict of a program whose ranks have a hash each and count what is wrong. */
static inline bool foreign_counted(
    const struct foreign *f, uint64_t part, uint64_t bad, uint64_t *hash, char *detail, size_t room)
{
    uint64_t all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_UINT64_T, MPI_SUM, f->comm);
    *hash = foreign_total(f, foreign_mix(part, (uint64_t)f->rank));
    snprintf(detail, room, "%llu wrong", (unsigned long long)all);
    return all == 0;
}

/* Sums that do not depend on the order of adding: in units of 2^-30. */
static inline int64_t foreign_fixed(double x)
{
    return (int64_t)(x * 0x1p30);
}

/* ---- pairs of ranks ---------------------------------------------------------------------
 * Each rank keeps with its state a running hash of all it has sent to each other rank,
 * and of all it has received from it.  In the end those of both sides must agree.  A
 * message lost, delivered twice or altered shows; and so does an orphan: a message that
 * one rank has received, and that is not in the history the other has ended with. */

struct foreign_pairs {
    uint64_t *sent, *received;   /* [nranks] hashes */
    uint64_t *nsent, *nreceived; /* [nranks] messages */
    uint64_t *bad;               /* messages out of order, or of a wrong length or content */
};

static inline int foreign_pairs_open(struct foreign *f, struct foreign_pairs *p)
{
    size_t n = (size_t)f->nranks, words = 4 * n + 1;
    p->sent = calloc(words, sizeof *p->sent);
    if (!p->sent)
        return 1;
    p->received = p->sent + n;
    p->nsent = p->received + n;
    p->nreceived = p->nsent + n;
    p->bad = p->nreceived + n;
    return ftkit_register(f->ft, "pairs", p->sent, words, MPI_UINT64_T) != FTKIT_OK;
}

/* The first word of a message becomes its number among those to dest. */
static inline void foreign_sent(struct foreign_pairs *p, int dest, uint64_t *message, size_t words)
{
    message[0] = ++p->nsent[dest];
    p->sent[dest] = XXH3_64bits_withSeed(message, words * sizeof *message, p->sent[dest]);
}

static inline void foreign_received(
    struct foreign_pairs *p, int source, const uint64_t *message, size_t words)
{
    *p->bad += message[0] != ++p->nreceived[source];
    p->received[source] =
        XXH3_64bits_withSeed(message, words * sizeof *message, p->received[source]);
}

/* Partners of this rank with another history than its own, and bad messages. */
static inline uint64_t foreign_pairs_compare(const struct foreign *f, const struct foreign_pairs *p)
{
    uint64_t bad = *p->bad;
    /* a receive of any tag may still wait for a message of the loop */
    MPI_Barrier(f->comm);
    for (int k = 0; k < f->nranks; k++) {
        int to = (f->rank + k) % f->nranks;
        int from = (f->rank - k + f->nranks) % f->nranks;
        uint64_t mine[2] = { p->sent[to], p->nsent[to] }, theirs[2] = { 0, UINT64_MAX };
        MPI_Sendrecv(mine, 2, MPI_UINT64_T, to, 99, theirs, 2, MPI_UINT64_T, from, 99, f->comm,
            MPI_STATUS_IGNORE);
        bad += theirs[0] != p->received[from] || theirs[1] != p->nreceived[from];
    }
    return bad;
}

/* ---- the program --------------------------------------------------------------------- */

static inline int foreign_options(struct foreign *f, int argc, char **argv)
{
    int opt;
    f->steps = f->app->steps;
    f->size = f->app->size;
    while ((opt = getopt(argc, argv, "n:s:o:w:m:c:i:r")) != -1) {
        switch (opt) {
        case 'n':
            f->steps = atoi(optarg);
            break;
        case 's':
            f->size = atoi(optarg);
            break;
        case 'o':
            f->out = optarg;
            break;
        case 'w':
            f->watch = optarg;
            break;
        case 'm':
            f->variant = optarg;
            break;
        case 'c':
            f->config = optarg;
            break;
        case 'i':
            f->info = optarg;
            break;
        case 'r':
            f->remake = 1;
            break;
        default:
            return 1;
        }
    }
    return optind != argc || f->steps < 0 || f->size < 1;
}

static inline int foreign_complain(const struct foreign *f, const char *what, int rc)
{
    fprintf(stderr, "%s: rank %d: %s: %s: %s\n", f->app->name, f->rank, what, ftkit_strerror(rc),
        ftkit_detail(f->ft));
    return 1;
}

/* Has ftkit interrupt calls on comm after a failure, where all ranks roll back. */
static inline int foreign_track(const struct foreign *f, MPI_Comm comm)
{
    return f->remake && ftkit_track_comm(f->ft, comm) != FTKIT_OK;
}

static inline int foreign_connect(struct foreign *f)
{
    return f->app->connect ? f->app->connect(f) : 0;
}

static inline void foreign_disconnect(const struct foreign *f)
{
    if (f->app->disconnect)
        f->app->disconnect();
}

static inline int foreign_remake(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct foreign *f = arg;
    int size;
    (void)ft;
    MPI_Comm_size(comm, &size);
    if (size != f->nranks)
        return 1;
    f->comm = comm;
    foreign_disconnect(f);
    return foreign_connect(f);
}

/* All that comes before the loop. */
static inline int foreign_begin(struct foreign *f)
{
    int rc = ftkit_bind_comm(f->ft, &f->comm);
    ftkit_info info = { .size = sizeof info };
    rc |= ftkit_query(f->ft, &info);
    f->plane = info.plane;
    MPI_Comm_rank(f->comm, &f->rank);
    MPI_Comm_size(f->comm, &f->nranks);
    if (!f->remake) { /* as in codes where rank 0 reads the input */
        int input[2] = { 0, 0 };
        if (f->rank == 0) {
            input[0] = f->steps;
            input[1] = f->size;
        }
        MPI_Bcast(input, 2, MPI_INT, 0, f->comm);
        f->steps = input[0];
        f->size = input[1];
    }
    rc |= f->loop ? ftkit_register(f->ft, "step", &f->step, 1, MPI_INT)
                  : ftkit_register_replicated(f->ft, "step", &f->step, 1, MPI_INT);
    if (rc != FTKIT_OK || f->app->prepare(f) != 0)
        return foreign_complain(f, "cannot begin", rc);
    if (f->remake)
        rc = ftkit_on_repair(f->ft, foreign_remake, f);
    else if (foreign_connect(f) != 0)
        rc = FTKIT_ERR_MPI;
    if (rc != FTKIT_OK)
        return foreign_complain(f, "cannot connect", rc);
    rc = ftkit_recover(f->ft, NULL);
    return rc < 0 ? foreign_complain(f, "recover", rc) : 0;
}

/* Of the files of a process: with replicas rank r of plane p has the number p * ranks + r. */
static inline int foreign_who(const struct foreign *f)
{
    return f->plane * f->nranks + f->rank;
}

static inline void foreign_watch(struct foreign *f)
{
    char path[512];
    if (!f->watch)
        return;
    if (!f->log) {
        snprintf(path, sizeof path, "%s.%d", f->watch, foreign_who(f));
        f->log = fopen(path, "a");
    }
    if (!f->log || fprintf(f->log, "%d %d\n", f->rank, f->step) < 0 || fflush(f->log) != 0)
        fprintf(stderr, "%s: cannot write %s.%d\n", f->app->name, f->watch, f->rank);
}

static inline void foreign_info(const struct foreign *f, const char *when)
{
    char path[512];
    ftkit_info info = { .size = sizeof info };
    if (!f->info)
        return;
    snprintf(path, sizeof path, "%s.%d", f->info, foreign_who(f));
    FILE *out = fopen(path, "a");
    bool written = out && ftkit_query(f->ft, &info) == FTKIT_OK
                   && fprintf(out, "%s %llu %llu\n", when, (unsigned long long)info.log_messages,
                          (unsigned long long)info.log_bytes)
                          > 0;
    if (written && strcmp(when, "end") == 0)
        written = fprintf(out, "sdc %llu %llu %d %llu %llu %llu\n",
                      (unsigned long long)info.sdc_found, (unsigned long long)info.sdc_corrected,
                      info.rollbacks, (unsigned long long)info.takeovers,
                      (unsigned long long)info.clones, (unsigned long long)info.degraded)
                  > 0;
    if (written && strcmp(when, "end") == 0)
        written = fprintf(out, "apart %llu %llu %llu\nreplay %.6f %.6f %llu %.6f\n",
                      (unsigned long long)info.line_late, (unsigned long long)info.line_early,
                      (unsigned long long)info.line_determinants, info.replay_s,
                      info.replay_forward_s, (unsigned long long)info.replay_calls, info.catch_up_s)
                  > 0;
    if ((out && fclose(out) != 0) || !written)
        fprintf(stderr, "%s: cannot write %s\n", f->app->name, path);
}

static inline void foreign_judge(struct foreign *f)
{
    uint64_t hash = 0;
    char detail[128] = "";
    int all = 0, mine = f->app->verdict(f, &hash, detail, sizeof detail);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, f->comm);
    f->good = all;
    snprintf(f->line, sizeof f->line, "%s step %d hash %016llx%s%s\n", all ? "OK" : "BAD", f->step,
        (unsigned long long)hash, *detail ? " " : "", detail);
}

/* Whether the program cannot go on after ftkit_checkpoint() has returned rc. */
static inline bool foreign_fatal(int rc)
{
    return rc <= FTKIT_ERR_IO - 20 || (rc < 0 && rc > FTKIT_ERR_IO);
}

/* What follows the last step; false: a failure has come, and the loop goes on. */
static inline bool foreign_end(struct foreign *f, int *bad)
{
    foreign_judge(f);
    int rc = ftkit_finish(f->ft);
    if (rc == FTKIT_ROLLED_BACK)
        return false;
    foreign_info(f, "end");
    *bad = rc < 0 ? foreign_complain(f, "finish", rc) : 0;
    return true;
}

static inline int foreign_loop(struct foreign *f)
{
    for (bool first = true;; first = false) {
        int rc = ftkit_checkpoint(f->ft);
        if (foreign_fatal(rc))
            return foreign_complain(f, "checkpoint", rc);
        if (first)
            foreign_info(f, "line");
        if (f->step >= f->steps) {
            if (foreign_end(f, &rc))
                return rc;
            continue;
        }
        foreign_watch(f);
        (void)FTK_FAULT("app.step");
        f->app->step(f);
        f->step++;
        rc = f->after ? f->after(f) : FTKIT_OK;
        if (foreign_fatal(rc))
            return foreign_complain(f, "behind a step", rc);
    }
}

static inline int foreign_result(const struct foreign *f)
{
    char path[512];
    if (f->rank != 0 || !f->out)
        return !f->good;
    snprintf(path, sizeof path, f->plane > 0 ? "%s.plane%d" : "%s", f->out, f->plane);
    FILE *out = fopen(path, "w");
    bool written = out && fputs(f->line, out) >= 0;
    return (out && fclose(out) != 0) || !written || !f->good;
}

/* loop: of ranks that are at different steps, such as foreign_loop(); NULL: foreign_loop() of ranks
 * that are at the same step */
static inline int foreign_run(
    int argc, char **argv, const struct foreign_app *app, int (*loop)(struct foreign *f))
{
    struct foreign f = { .app = app, .loop = loop };
    int begun = 0; /* by the program, which does something before ftkit_open() */
    MPI_Initialized(&begun);
    if (!begun)
        MPI_Init(&argc, &argv);
    if (foreign_options(&f, argc, argv) != 0) {
        fprintf(stderr, "%s: see foreign.h for the options\n", app->name);
        MPI_Finalize();
        return 2;
    }
    int rc = ftkit_open(MPI_COMM_WORLD, f.config, &f.ft);
    if (rc != FTKIT_OK) {
        foreign_complain(&f, "open", rc);
        MPI_Finalize();
        return 1;
    }
    int bad = foreign_begin(&f) || (loop ? loop(&f) : foreign_loop(&f)) || foreign_result(&f);
    foreign_disconnect(&f);
    rc = ftkit_close(&f.ft);
    if (rc != FTKIT_OK)
        bad = foreign_complain(&f, "close", rc);
    app->release();
    if (f.log && fclose(f.log) != 0)
        bad = 1;
    MPI_Finalize();
    return bad;
}

static inline int foreign_main(int argc, char **argv, const struct foreign_app *app)
{
    return foreign_run(argc, argv, app, NULL);
}

#endif

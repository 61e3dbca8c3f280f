/* A solver whose state is in files of its own, and that restarts on any number of ranks.
 *
 *   files_ranks -o RESULT MODE [PATH OFFSET]
 *
 * The state is chunks of numbers, in blocks of chunks for the ranks.  A rank writes a file for each
 * of its chunks.  The result, by rank 0, is the same on any number of ranks.
 *
 *   callbacks, calls: how the files are given
 *   refuses:  callbacks, without ftkit_files_any_ranks()
 *   errors:   calls, and each error of ftkit_files_of() and of its sisters
 *   takes:    calls; rank 0 moves the directories of all old ranks to of-0, of-1, ...
 *   gone:     calls; PATH is away while rank 0 asks for the files
 *   damaged:  calls; the byte of PATH at OFFSET is another one while rank 0 asks for them
 *   damaged-callbacks: the same, and it stays so
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "chunks.h"
#include "core/ftk.h"
#include "ftkit.h"

enum { STEPS = 30 };

static struct {
    MPI_Comm comm;
    ftkit_ctx *ft;
    const char *mode, *path;
    long offset;
    char dir[1100]; /* of the last old rank */
    int64_t step;   /* registered */
    int64_t x[CHUNKS][ITEMS];
} a;

static bool is_mode(const char *mode)
{
    return strcmp(a.mode, mode) == 0;
}

static bool has_calls(void)
{
    return !is_mode("callbacks") && !is_mode("refuses") && !is_mode("damaged-callbacks");
}

/* Each chunk has a name and permissions of its own, which change from step to step. */
static void name_of(char path[4096], const char *dir, int chunk)
{
    static const char *const forms[] = { "%s/chunk-%d.bin", "%s/sub/chunk %d",
        "%s/sub/\xc3\xa4%d" };
    snprintf(path, 4096, forms[chunk % 3], dir, chunk);
}

static mode_t mode_of(int chunk)
{
    static const mode_t modes[] = { 0600, 0644, 0755, 0440 };
    return modes[(chunk + a.step) % 4];
}

static int write_chunk(const char *dir, int chunk)
{
    char path[4096];
    name_of(path, dir, chunk);
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    int rc = fwrite(&a.step, sizeof a.step, 1, f) == 1 ? 0 : -1;
    rc |= fwrite(a.x[chunk], sizeof a.x[0], 1, f) == 1 ? 0 : -1;
    rc |= fchmod(fileno(f), mode_of(chunk));
    return fclose(f) == 0 ? rc : -1;
}

static int write_files(void *arg, const char *dir)
{
    char path[4096];
    int rc = 0;
    (void)arg;
    snprintf(path, sizeof path, "%s/sub", dir);
    rc |= mkdir(path, 0750);
    snprintf(path, sizeof path, "%s/nothing-%d", dir, me);
    rc |= mkdir(path, 0755);
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++)
        rc |= write_chunk(dir, c);
    return rc;
}

/* The file has the chunk of the step, with its permissions. */
static int read_chunk(const char *dir, int chunk)
{
    char path[4096];
    struct stat st;
    int64_t step = -1;
    name_of(path, dir, chunk);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    int rc = fread(&step, sizeof step, 1, f) == 1 ? 0 : -1;
    rc |= fread(a.x[chunk], sizeof a.x[0], 1, f) == 1 ? 0 : -1;
    rc |= fgetc(f) == EOF ? 0 : -1;
    rc |= fstat(fileno(f), &st);
    (void)fclose(f);
    TRUE(rc != 0 || (st.st_mode & 0777) == mode_of(chunk));
    return rc == 0 && step == a.step ? 0 : -1;
}

static int read_files(void *arg, const char *dir)
{
    int rc = 0;
    (void)arg;
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++)
        rc |= read_chunk(dir, c);
    return rc;
}

static int read_of(void *arg, ftkit_ctx *ft, const char *name, int old_ranks)
{
    char dir[1100];
    int rc = 0;
    (void)arg;
    EQUAL(0, strcmp(name, "restart"));
    memset(a.x, 0, sizeof a.x);
    for (int q = 0; q < old_ranks; q++) {
        const int from = first_of(q, old_ranks), to = first_of(q + 1, old_ranks);
        if (to <= first_of(me, n) || from >= first_of(me + 1, n))
            continue;
        if (ftkit_files_of(ft, name, q, dir, sizeof dir) != FTKIT_OK)
            return -1;
        snprintf(a.dir, sizeof a.dir, "%s", dir);
        for (int c = from; c < to; c++)
            if (c >= first_of(me, n) && c < first_of(me + 1, n))
                rc |= read_chunk(dir, c);
    }
    return rc;
}

/* ---- what else rank 0 does with the old files ------------------------------------------ */

static void flip(void)
{
    char byte;
    int fd = open(a.path, O_RDWR);
    TRUE(fd >= 0);
    EQUAL(1, pread(fd, &byte, 1, a.offset));
    byte ^= 1;
    EQUAL(1, pwrite(fd, &byte, 1, a.offset));
    EQUAL(0, close(fd));
}

static void move_away(bool away)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.away", a.path);
    EQUAL(0, away ? rename(a.path, path) : rename(path, a.path));
}

/* Print the first error of all old ranks. */
static void say_error(int ranks)
{
    char dir[1100] = "unchanged";
    for (int q = 0; q < ranks; q++) {
        const int rc = ftkit_files_of(a.ft, "restart", q, dir, sizeof dir);
        if (rc == FTKIT_OK)
            continue;
        fprintf(stderr, "error %d: %s\n", rc, ftkit_detail(a.ft));
        return;
    }
}

static void take(int ranks)
{
    char dir[1100], to[64];
    struct stat st;
    for (int q = 0; q < ranks; q++) {
        EQUAL(FTKIT_OK, ftkit_files_of(a.ft, "restart", q, dir, sizeof dir));
        snprintf(to, sizeof to, "of-%d", q);
        EQUAL(0, rename(dir, to));
    }
    EQUAL(FTKIT_OK, ftkit_files_of(a.ft, "restart", 0, dir, sizeof dir)); /* once more */
    EQUAL(0, stat(dir, &st));
}

static void meet_errors(int ranks)
{
    char dir[1100] = "unchanged", same[1100], more[1200];
    int is = -7;
    EQUAL(FTKIT_ERR_ARG, ftkit_files_of(a.ft, "restart", -1, dir, sizeof dir));
    EQUAL(FTKIT_ERR_ARG, ftkit_files_of(a.ft, "restart", ranks, dir, sizeof dir));
    fprintf(stderr, "no such rank: %s\n", ftkit_detail(a.ft));
    EQUAL(FTKIT_ERR_NOT_FOUND, ftkit_files_of(a.ft, "elsewhere", 0, dir, sizeof dir));
    EQUAL(FTKIT_ERR_NOT_FOUND, ftkit_files_of(a.ft, "step", 0, dir, sizeof dir));
    EQUAL(FTKIT_ERR_NOT_FOUND, ftkit_files_ranks(a.ft, "step", &is));
    EQUAL(FTKIT_ERR_ARG, ftkit_files_of(a.ft, NULL, 0, dir, sizeof dir));
    EQUAL(FTKIT_ERR_ARG, ftkit_files_of(NULL, "restart", 0, dir, sizeof dir));
    EQUAL(FTKIT_ERR_ARG, ftkit_files_of(a.ft, "restart", 0, NULL, sizeof dir));
    EQUAL(FTKIT_ERR_SIZE, ftkit_files_of(a.ft, "restart", 0, dir, 20));
    EQUAL(FTKIT_ERR_ARG, ftkit_files_ranks(a.ft, "restart", NULL));
    EQUAL(FTKIT_ERR_SIZE, ftkit_files_read(a.ft, "restart", dir, sizeof dir));
    fprintf(stderr, "not of as many: %s\n", ftkit_detail(a.ft));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_any_ranks(a.ft, "restart", NULL));
    EQUAL(0, strcmp(dir, "unchanged"));
    EQUAL(-7, is);
    EQUAL(FTKIT_OK, ftkit_files_begin(a.ft, "restart", dir, sizeof dir));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_of(a.ft, "restart", 0, dir, sizeof dir));
    EQUAL(FTKIT_OK, ftkit_files_end(a.ft, "restart", 0));
    EQUAL(FTKIT_OK, ftkit_files_of(a.ft, "restart", 0, dir, sizeof dir));
    snprintf(more, sizeof more, "%s/more", dir);
    EQUAL(0, mkdir(more, 0700));
    EQUAL(FTKIT_OK, ftkit_files_of(a.ft, "restart", 0, same, sizeof same));
    EQUAL(0, strcmp(dir, same));
    TRUE(access(more, F_OK) != 0); /* the directory is made anew */
}

static void disturb(int ranks)
{
    if (me == 0 && is_mode("takes"))
        take(ranks);
    if (me == 0 && is_mode("errors"))
        meet_errors(ranks);
    if (me == 0 && is_mode("gone")) {
        move_away(true);
        say_error(ranks);
        move_away(false);
    }
    if (me == 0 && is_mode("damaged")) {
        flip();
        say_error(ranks);
        flip();
    }
    (void)MPI_Barrier(a.comm);
}

static int damage_and_read(void *arg, ftkit_ctx *ft, const char *name, int old_ranks)
{
    if (me == 0)
        flip();
    return read_of(arg, ft, name, old_ranks);
}

/* ---- the loop -------------------------------------------------------------------------- */

static void take_back(void)
{
    char dir[1100];
    int ranks = 0;
    const int rc = ftkit_files_ranks(a.ft, "restart", &ranks);
    if (me == 0)
        fprintf(stderr, "step %d, files of %d ranks on %d\n", (int)a.step,
            rc == FTKIT_OK ? ranks : n, n);
    if (!has_calls()) {
        TRUE(!a.dir[0] || access(a.dir, F_OK) != 0); /* it goes with the function that reads */
        return;
    }
    if (rc == FTKIT_OK) {
        disturb(ranks);
        EQUAL(0, read_of(NULL, a.ft, "restart", ranks));
        return;
    }
    EQUAL(FTKIT_NO_SET, rc);
    EQUAL(FTKIT_NO_SET, ftkit_files_of(a.ft, "restart", 0, dir, sizeof dir));
    EQUAL(FTKIT_OK, ftkit_files_read(a.ft, "restart", dir, sizeof dir));
    EQUAL(0, read_files(NULL, dir));
}

static void body(int rc)
{
    char dir[1100];
    int ranks;
    if (rc < 0) {
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(a.ft));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rc == FTKIT_NO_SET)
        start_chunks(a.x);
    if (rc == FTKIT_ROLLED_BACK)
        take_back();
    if (a.step >= STEPS) {
        EQUAL(FTKIT_NO_SET, ftkit_files_ranks(a.ft, "restart", &ranks)); /* there is a newer set */
        EQUAL(FTKIT_OK, ftkit_end(a.ft));
        return;
    }
    (void)FTK_FAULT("app.step");
    step_chunks(a.comm, a.x, a.step);
    a.step++;
    if (has_calls() && ftkit_due(a.ft) > 0) {
        EQUAL(FTKIT_OK, ftkit_files_begin(a.ft, "restart", dir, sizeof dir));
        EQUAL(FTKIT_OK, ftkit_files_end(a.ft, "restart", write_files(NULL, dir) == 0));
    }
}

/* Ranks may have other numbers after a shrink. */
static int on_repair(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    (void)ft, (void)arg;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    return 0;
}

static int set_up(void)
{
    const ftkit_files ops = { sizeof ops, write_files, read_files };
    EQUAL(FTKIT_OK, ftkit_bind_comm(a.ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    EQUAL(FTKIT_OK, ftkit_on_repair(a.ft, on_repair, NULL));
    EQUAL(FTKIT_OK, ftkit_register_replicated(a.ft, "step", &a.step, 1, MPI_INT64_T));
    EQUAL(FTKIT_ERR_NOT_FOUND, ftkit_files_any_ranks(a.ft, "restart", NULL));
    int rc = ftkit_register_files(a.ft, "restart", has_calls() ? NULL : &ops, NULL);
    if (rc != FTKIT_OK || is_mode("refuses"))
        return rc;
    EQUAL(FTKIT_ERR_ARG, ftkit_files_any_ranks(a.ft, "restart", has_calls() ? read_of : NULL));
    return ftkit_files_any_ranks(a.ft, "restart",
        has_calls()                    ? NULL
        : is_mode("damaged-callbacks") ? damage_and_read
                                       : read_of);
}

static void write_result(const char *path)
{
    const int64_t sum = sum_chunks(a.comm, a.x);
    if (me != 0)
        return;
    FILE *f = fopen(path, "w");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, sum %lld\n", (int)a.step, (long long)sum) > 0);
    EQUAL(0, fclose(f));
}

int main(int argc, char **argv)
{
    a.mode = argc > 3 ? argv[3] : "callbacks";
    a.path = argc > 4 ? argv[4] : NULL;
    a.offset = argc > 5 ? atol(argv[5]) : 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &a.ft) != FTKIT_OK)
        return 1;
    int rc = set_up();
    while (rc >= 0 && ftkit_step(a.ft, &rc))
        body(rc);
    if (rc < 0)
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(a.ft));
    else
        write_result(argv[2]);
    int closed = ftkit_close(&a.ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}

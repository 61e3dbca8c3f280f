/* A solver that saves itself by files of its own: a text, a binary file, and files whose names,
 * number and lengths change from set to set.  Its state is in no other region.
 *
 *   files -o RESULT [MODE]
 *
 * The result is the sum of all ranks, and the number of errors with the last one, by rank 0.
 *
 *   callbacks: write and read (default)
 *   calls:     ftkit_due(), ftkit_files_begin() and ftkit_files_end(); both sides communicate
 *   early:     the same, and files are also written where no set is due
 *   asks:      ftkit_request() in place of ftkit_due(); no communication (with the message log)
 *   stale:     files at other calls than the one before a set
 *   back:      files for the call after a rollback in ftkit_scrub(), and not for the next one
 *   alone:     rank 1 alone asks for a set, and all ranks ask ftkit_due()
 *   recover:   without ftkit_step()
 *   link:      write leaves a symbolic link, which a set does not take
 *   fails:     write fails on rank 1 in its second call
 *   fills:     the same, because the file system is full
 *   filled:    the same, and there is room again when write returns
 *   two:       two contexts, each on a part of the ranks; the results are in RESULT.0 and RESULT.1
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/ftk.h"
#include "ftkit.h"
#include "in_dir.h"

enum { STEPS = 30, ITEMS = 60000, EVERY = 5 };

struct app {
    MPI_Comm comm;
    const char *out, *mode;
    int half;     /* part of the world, of which the context is; -1: all of it */
    int step;     /* registered */
    int restored; /* the step of the files, -1: none */
    int errors, last_error;
    int writes;
    bool went;      /* back to a set */
    char dir[1100]; /* of the last files */
    bool due;       /* what ftkit_due() has said */
    uint64_t committed;
    double sum;
    double x[ITEMS];
};

static struct app a;

static bool is_mode(const char *mode)
{
    return strcmp(a.mode, mode) == 0;
}

/* The mode has no callbacks. */
static bool has_calls(void)
{
    static const char *const modes[] = { "calls", "early", "asks", "stale", "back", "alone",
        "recover" };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (is_mode(modes[i]))
            return true;
    return false;
}

static double sum_of(double mine)
{
    double all = 0;
    (void)MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, a.comm);
    return all;
}

/* The name of a file that only sets of some steps have. */
static const char *changing(const char *dir, int step)
{
    char name[64];
    snprintf(name, sizeof name, "sub/of-step-%d", step);
    return in(dir, name);
}

static int write_data(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    const size_t done = fwrite(data, 1, bytes, f);
    return fclose(f) == 0 && done == bytes ? 0 : -1;
}

static int read_data(const char *path, void *data, size_t bytes)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    const size_t done = fread(data, 1, bytes, f);
    const bool end = fgetc(f) == EOF;
    return fclose(f) == 0 && done == bytes && end ? 0 : -1;
}

/* The part of the text that changes with the step: its length does, too. */
static int write_text(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    int rc = fprintf(f, "%d %.17g\n", a.step, a.sum) > 0 ? 0 : -1;
    for (int i = 0; i < a.step; i++)
        rc |= fprintf(f, "line %d\n", i) > 0 ? 0 : -1;
    return fclose(f) == 0 ? rc : -1;
}

static int read_text(const char *path)
{
    int lines = 0, c;
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    int rc = fscanf(f, "%d %lg\n", &a.restored, &a.sum) == 2 ? 0 : -1;
    while ((c = fgetc(f)) != EOF)
        lines += c == '\n';
    (void)fclose(f);
    return rc == 0 && lines == a.restored ? 0 : -1;
}

static void leave_rubbish(const char *dir)
{
    if (me == 1 && is_mode("link"))
        EQUAL(0, symlink("/etc", in(dir, "sub/away")));
}

/* Write until the file system is full. */
static int fill(const char *path)
{
    static const char page[4096];
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    size_t pages = 0;
    while (pages < 65536 && fwrite(page, sizeof page, 1, f) == 1)
        pages++;
    int rc = fclose(f);
    TRUE(pages < 65536);
    return rc == 0 ? -2 : -1;
}

static int write_files(void *arg, const char *dir)
{
    (void)arg;
    struct stat st;
    TRUE(stat(dir, &st) == 0 && S_ISDIR(st.st_mode));
    TRUE(stat(in(dir, "x.bin"), &st) != 0); /* it is empty */
    snprintf(a.dir, sizeof a.dir, "%s", dir);
    if (is_mode("fails") && me == 1 && ++a.writes == 2)
        return 7;
    if (is_mode("filled") && me == 1 && ++a.writes == 2) {
        int rc = fill(in(dir, "ballast"));
        const int err = errno;
        TRUE(unlink(in(dir, "ballast")) == 0);
        errno = err;
        return rc;
    }
    if (is_mode("fills") && me == 1 && ++a.writes == 2)
        return fill(in(dir, "ballast"));
    int rc = mkdir(in(dir, "sub"), 0755) | mkdir(in(dir, "nothing"), 0755);
    rc |= write_text(in(dir, "step.txt"));
    (void)FTK_FAULT("app.writing");
    rc |= write_data(in(dir, "x.bin"), a.x, sizeof a.x);
    if (a.step % 2)
        rc |= write_data(changing(dir, a.step), a.x, 8 * (size_t)(a.step + me));
    leave_rubbish(dir);
    return rc;
}

static int read_files(void *arg, const char *dir)
{
    double part[STEPS + 64];
    struct stat st;
    (void)arg;
    memset(a.x, 0, sizeof a.x);
    int rc = read_text(in(dir, "step.txt"));
    (void)FTK_FAULT("app.reading");
    rc |= read_data(in(dir, "x.bin"), a.x, sizeof a.x);
    rc |= stat(in(dir, "nothing"), &st) != 0 || !S_ISDIR(st.st_mode);
    const size_t bytes = 8 * (size_t)(a.restored + me);
    if (a.restored % 2 && rc == 0)
        rc |= read_data(changing(dir, a.restored), part, bytes) || memcmp(part, a.x, bytes) != 0;
    else
        rc |= stat(changing(dir, a.restored), &st) == 0;
    return rc;
}

static void start(void)
{
    a.sum = 0;
    a.restored = -1;
    for (int i = 0; i < ITEMS; i++)
        a.x[i] = i % 7 + me;
}

/* The state is that of the set. */
static void take_back(ftkit_ctx *ft)
{
    char dir[1100];
    if (has_calls()) {
        EQUAL(FTKIT_ERR_STATE, ftkit_files_end(ft, "restart", 0)); /* it keeps them */
        int rc = ftkit_files_read(ft, "restart", dir, sizeof dir);
        EQUAL(FTKIT_OK, rc);
        EQUAL(0, read_files(NULL, dir));
        if (!is_mode("asks"))
            (void)sum_of(1);
    }
    EQUAL(a.step, a.restored);
}

static void give(ftkit_ctx *ft, bool due)
{
    char dir[1100];
    if (!due && !is_mode("early"))
        return;
    EQUAL(FTKIT_OK, ftkit_files_begin(ft, "restart", dir, sizeof dir));
    int rc = write_files(NULL, dir);
    (void)FTK_FAULT("app.wrote");
    bool all = is_mode("asks") || sum_of(rc == 0) == n;
    EQUAL(FTKIT_OK, ftkit_files_end(ft, "restart", rc == 0 && all));
}

/* A call has written a set if, and only if, ftkit_due() has said so. */
static void check_due(ftkit_ctx *ft, int rc)
{
    ftkit_info info = { .size = sizeof info };
    EQUAL(FTKIT_OK, ftkit_query(ft, &info));
    if (rc == FTKIT_OK && (is_mode("calls") || is_mode("alone")))
        EQUAL(a.due, info.committed != a.committed);
    a.committed = info.committed;
    a.due = false;
}

static void ask_due(ftkit_ctx *ft)
{
    int due = ftkit_due(ft);
    if (due < 0)
        fprintf(stderr, "rank %d: ftkit_due: %s\n", me, ftkit_detail(ft));
    TRUE(due >= 0);
    a.due = due;
    give(ft, due);
}

/* A rank is lost in front of ftkit_scrub().  Its replacement gives files for its second call. */
static void go_back(ftkit_ctx *ft, int rc)
{
    if (rc == FTKIT_ROLLED_BACK && !a.went)
        give(ft, true);
    a.went |= rc == FTKIT_ROLLED_BACK;
    if (a.went || a.step != EVERY)
        return;
    (void)FTK_FAULT("app.scrub");
    EQUAL(FTKIT_ROLLED_BACK, ftkit_scrub(ft, NULL));
    a.went = true;
    give(ft, true);
}

static void prepare(ftkit_ctx *ft)
{
    if (is_mode("asks")) {
        const bool due = a.step % EVERY == 0 && a.step > 0;
        if (due)
            EQUAL(FTKIT_OK, ftkit_request(ft, 0));
        give(ft, due);
    } else if (is_mode("calls") || is_mode("early")) {
        ask_due(ft);
    } else if (is_mode("alone")) {
        usleep(20000); /* longer than checkpoint.react */
        if (me == 1 && a.step == EVERY)
            EQUAL(FTKIT_OK, ftkit_request(ft, 0));
        ask_due(ft);
    } else if (is_mode("back")) {
        give(ft, !a.went);
    } else if (is_mode("stale")) {
        give(ft, a.step % EVERY == 2);
    }
}

static void body(ftkit_ctx *ft, int rc)
{
    if (rc < 0) {
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
        a.errors++;
        a.last_error = rc;
        TRUE(!(is_mode("fails") || is_mode("fills") || is_mode("filled"))
             || access(in(a.dir, "x.bin"), F_OK) != 0);
    }
    check_due(ft, rc);
    if (rc == FTKIT_NO_SET)
        start();
    if (rc == FTKIT_ROLLED_BACK && !is_mode("back"))
        take_back(ft);
    if (is_mode("back")) {
        const bool went = a.went;
        go_back(ft, rc);
        if (a.went != went && rc != FTKIT_ROLLED_BACK)
            return;
    }
    if (a.step >= STEPS || (is_mode("back") && rc < 0)) {
        EQUAL(FTKIT_OK, ftkit_end(ft));
        return;
    }
    (void)FTK_FAULT("app.step");
    const double mean = sum_of(a.x[a.step]) / n;
    for (int i = 0; i < ITEMS; i++)
        a.x[i] = 0.5 * a.x[i] + mean + i % (a.step + 2);
    a.sum += mean;
    a.step++;
    prepare(ft);
}

static void write_result(void)
{
    const double all = sum_of(a.x[7] + a.x[ITEMS - 1] + a.sum), errors = sum_of(a.errors != 0);
    if (me != 0)
        return;
    char path[4096];
    snprintf(path, sizeof path, a.half >= 0 ? "%s.%d" : "%s", a.out, a.half);
    FILE *f = fopen(path, "w");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, sum %.17g", a.step, all) > 0);
    if (errors > 0)
        TRUE(fprintf(f, ", %d errors, the last %d", a.errors, a.last_error) > 0);
    TRUE(fputc('\n', f) == '\n');
    EQUAL(0, fclose(f));
}

/* With two contexts: a part of the processes. */
static MPI_Comm choose_half(void)
{
    MPI_Comm half;
    int rank, size;
    a.half = -1;
    if (!is_mode("two"))
        return MPI_COMM_WORLD;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    a.half = 12 * rank >= 5 * size;
    MPI_Comm_split(MPI_COMM_WORLD, a.half, rank, &half);
    return half;
}

int main(int argc, char **argv)
{
    const ftkit_files ops = { sizeof ops, write_files, read_files };
    ftkit_ctx *ft;
    int rc;
    a.out = argc > 2 ? argv[2] : "out";
    a.mode = argc > 3 ? argv[3] : "callbacks";
    MPI_Init(&argc, &argv);
    MPI_Comm world = choose_half();
    if (ftkit_open(world, NULL, &ft) != FTKIT_OK)
        return 1;
    EQUAL(FTKIT_OK, ftkit_bind_comm(ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    EQUAL(FTKIT_OK, ftkit_register_replicated(ft, "step", &a.step, 1, MPI_INT));
    rc = ftkit_register_files(ft, "restart", has_calls() ? NULL : &ops, &a);
    start();
    if (rc == FTKIT_OK && is_mode("recover"))
        rc = ftkit_recover(ft, NULL);
    else if (rc == FTKIT_OK)
        while (ftkit_step(ft, &rc))
            body(ft, rc);
    if (rc < 0)
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
    else
        write_result();
    int closed = ftkit_close(&ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}

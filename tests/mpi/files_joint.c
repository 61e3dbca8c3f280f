/* A solver whose state is in files that all ranks write together, and that restarts on any number
 * of ranks.
 *
 *   files_joint -o RESULT [MODE]
 *
 * The state is chunks of numbers, in blocks of chunks for the ranks.  All ranks write their chunks
 * into one file, rank 0 writes a text beside it, and the last rank a file that some sets lack.  The
 * result, by rank 0, is the same on any number of ranks.
 *
 *   posix:    by open() and pwrite() (default)
 *   mpiio:    by MPI_File_write_at_all()
 *   two:      a second region of joint files
 *   fails:    rank 1 says once that its files are of no use
 *   changes:  rank 1 makes the file longer once behind ftkit_files_end()
 *   errors:   the errors of the calls
 *   apart:    rank 1 ends to write, where the others begin
 *   alone:    without ftkit_step()
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
#include "in_dir.h"

enum { STEPS = 30 };
#define CHUNK_BYTES ((MPI_Offset)(ITEMS * sizeof(int64_t)))

static struct {
    MPI_Comm comm;
    ftkit_ctx *ft;
    const char *mode;
    int times;      /* the mode has done what it does */
    char dir[1100]; /* of the files for the next set; "": none */
    int errors, last_error;
    int64_t step; /* registered */
    int64_t x[CHUNKS][ITEMS];
} a;

static bool is_mode(const char *mode)
{
    return strcmp(a.mode, mode) == 0;
}

static int own_chunks(void)
{
    return first_of(me + 1, n) - first_of(me, n);
}

/* ---- writing --------------------------------------------------------------------------- */

static int write_posix(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0640);
    if (fd < 0)
        return -1;
    int rc = 0;
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++) {
        (void)FTK_FAULT("app.writing");
        rc |= pwrite(fd, a.x[c], sizeof a.x[c], c * CHUNK_BYTES) == CHUNK_BYTES ? 0 : -1;
    }
    return close(fd) == 0 ? rc : -1;
}

static int write_mpiio(const char *path)
{
    MPI_File f;
    if (MPI_File_open(a.comm, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f)
        != MPI_SUCCESS)
        return -1;
    (void)FTK_FAULT("app.writing");
    const int first = first_of(me, n);
    int rc = MPI_File_write_at_all(f, first * CHUNK_BYTES, first < CHUNKS ? a.x[first] : NULL,
        own_chunks() * ITEMS, MPI_INT64_T, MPI_STATUS_IGNORE);
    (void)FTK_FAULT("app.written");
    if (MPI_File_close(&f) != MPI_SUCCESS)
        return -1;
    return rc == MPI_SUCCESS ? 0 : -1;
}

static int write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    int rc = fputs(text, f) >= 0 ? 0 : -1;
    return fclose(f) == 0 ? rc : -1;
}

static int write_files(const char *dir)
{
    char text[64];
    struct stat st;
    int rc = 0;
    TRUE(stat(dir, &st) == 0 && S_ISDIR(st.st_mode));
    if (me == 0) {
        snprintf(text, sizeof text, "step %d\n", (int)a.step);
        rc |= mkdir(in(dir, "sub"), 0755) | mkdir(in(dir, "nothing"), 0700);
        rc |= write_text(in(dir, "sub/step.txt"), text) | write_text(in(dir, "empty"), "");
        rc |= chmod(in(dir, "sub/step.txt"), 0444);
    }
    if (me == n - 1 && a.step % 2)
        rc |= write_text(in(dir, "odd"), "an odd step");
    return rc
           | (is_mode("mpiio") ? write_mpiio(in(dir, "state.bin"))
                               : write_posix(in(dir, "state.bin")));
}

/* ---- reading --------------------------------------------------------------------------- */

static int read_posix(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return -1;
    int rc = 0;
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++) {
        (void)FTK_FAULT("app.reading");
        rc |= pread(fd, a.x[c], sizeof a.x[c], c * CHUNK_BYTES) == CHUNK_BYTES ? 0 : -1;
    }
    return close(fd) == 0 ? rc : -1;
}

static int read_mpiio(const char *path)
{
    MPI_File f;
    if (MPI_File_open(a.comm, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f) != MPI_SUCCESS)
        return -1;
    (void)FTK_FAULT("app.reading");
    const int first = first_of(me, n);
    int rc = MPI_File_read_at_all(f, first * CHUNK_BYTES, first < CHUNKS ? a.x[first] : NULL,
        own_chunks() * ITEMS, MPI_INT64_T, MPI_STATUS_IGNORE);
    return MPI_File_close(&f) == MPI_SUCCESS && rc == MPI_SUCCESS ? 0 : -1;
}

static int read_files(const char *dir)
{
    struct stat st;
    int step = -1;
    memset(a.x, 0, sizeof a.x);
    FILE *f = fopen(in(dir, "sub/step.txt"), "r");
    TRUE(f != NULL);
    EQUAL(1, fscanf(f, "step %d\n", &step));
    EQUAL(0, fclose(f));
    EQUAL(a.step, step);
    EQUAL(0, stat(in(dir, "sub/step.txt"), &st));
    EQUAL(0444, st.st_mode & 0777);
    EQUAL(0, stat(in(dir, "state.bin"), &st));
    EQUAL(CHUNKS * CHUNK_BYTES, st.st_size);
    EQUAL(0, stat(in(dir, "empty"), &st));
    EQUAL(0, st.st_size);
    TRUE(stat(in(dir, "nothing"), &st) == 0 && S_ISDIR(st.st_mode));
    EQUAL(step % 2 != 0, stat(in(dir, "odd"), &st) == 0);
    return is_mode("mpiio") ? read_mpiio(in(dir, "state.bin")) : read_posix(in(dir, "state.bin"));
}

/* ---- the loop -------------------------------------------------------------------------- */

/* Says an error, unless it is that of a lost rank. */
static int note(int rc)
{
    if (rc < 0 && rc != FTKIT_ERR_PEER) {
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(a.ft));
        a.errors++;
        a.last_error = rc;
    }
    return rc;
}

static void take_back(void)
{
    char dir[1100] = "unchanged", again[1100];
    int ranks;
    EQUAL(FTKIT_ERR_STATE, ftkit_files_ranks(a.ft, "state", &ranks));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_of(a.ft, "state", 0, dir, sizeof dir));
    int rc = note(ftkit_files_read(a.ft, "state", dir, sizeof dir));
    if (rc == FTKIT_ERR_PEER) {
        EQUAL(0, strcmp(dir, "unchanged"));
        return; /* the next ftkit_step() repairs */
    }
    EQUAL(FTKIT_OK, rc);
    EQUAL(FTKIT_OK, ftkit_files_read(a.ft, "state", again, sizeof again));
    EQUAL(0, strcmp(dir, again));
    TRUE(read_files(dir) == 0 || ftkit_confirm(a.ft));
    if (is_mode("two"))
        rc = note(ftkit_files_read(a.ft, "more", dir, sizeof dir));
    TRUE(rc == FTKIT_ERR_PEER || !is_mode("two") || access(in(dir, "more"), R_OK) == 0
         || ftkit_confirm(a.ft));
}

/* What a mode does once, on rank 1 behind its files. */
static bool once(const char *mode)
{
    return is_mode(mode) && me == 1 && a.times++ == 1;
}

static void disturb(const char *dir)
{
    if (once("changes"))
        EQUAL(0, truncate(in(dir, "state.bin"), (CHUNKS + 1) * CHUNK_BYTES));
}

static void give_more(void)
{
    char dir[1100];
    bool ok = note(ftkit_files_begin(a.ft, "more", dir, sizeof dir)) == FTKIT_OK;
    if (ok && me == 0)
        ok = write_text(in(dir, "more"), "of rank 0") == 0;
    (void)note(ftkit_files_end(a.ft, "more", ok));
}

static void give(void)
{
    char dir[1100];
    if (note(ftkit_due(a.ft)) <= 0)
        return;
    if (is_mode("apart")) {
        EQUAL(
            FTKIT_ERR_MISMATCH, note(me == 1 ? ftkit_files_end(a.ft, "state", 0)
                                             : ftkit_files_begin(a.ft, "state", dir, sizeof dir)));
        MPI_Abort(a.comm, 1);
    }
    (void)FTK_FAULT("app.begin");
    bool ok = note(ftkit_files_begin(a.ft, "state", dir, sizeof dir)) == FTKIT_OK;
    ok = ok && write_files(dir) == 0 && !once("fails");
    (void)FTK_FAULT("app.wrote");
    a.dir[0] = '\0';
    if (note(ftkit_files_end(a.ft, "state", ok)) == FTKIT_OK) {
        disturb(dir);
        snprintf(a.dir, sizeof a.dir, "%s", dir);
    }
    if (is_mode("two"))
        give_more();
}

static void meet_errors(void)
{
    char dir[1100] = "unchanged";
    int is = -7;
    EQUAL(FTKIT_NO_SET, ftkit_files_read(a.ft, "state", dir, sizeof dir));
    EQUAL(FTKIT_ERR_SIZE, ftkit_files_begin(a.ft, "state", dir, me == 1 ? 10 : sizeof dir));
    EQUAL(FTKIT_ERR_ARG, ftkit_files_begin(a.ft, "state", me == 1 ? dir : NULL, sizeof dir));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_end(a.ft, "state", 1));
    EQUAL(FTKIT_ERR_CALLBACK, ftkit_files_end(a.ft, "state", 0));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_any_ranks(a.ft, "state", NULL));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_ranks(a.ft, "state", &is));
    EQUAL(FTKIT_ERR_NOT_FOUND, ftkit_files_begin(a.ft, "elsewhere", dir, sizeof dir));
    EQUAL(FTKIT_ERR_EXISTS, ftkit_register_joint_files(a.ft, "state"));
    EQUAL(0, strcmp(dir, "unchanged"));
    EQUAL(-7, is);
}

static void meet_early(void)
{
    char dir[1100];
    EQUAL(FTKIT_ERR_STATE, ftkit_files_begin(a.ft, "state", dir, sizeof dir));
    EQUAL(FTKIT_ERR_STATE, ftkit_files_end(a.ft, "state", 0));
}

static void body(int rc)
{
    (void)note(rc);
    if (rc == FTKIT_OK && me == 0 && a.dir[0] != '\0') /* the set has the files */
        TRUE(access(a.dir, F_OK) != 0 || is_mode("changes"));
    a.dir[0] = '\0';
    if (rc == FTKIT_NO_SET)
        start_chunks(a.x);
    if (rc == FTKIT_ROLLED_BACK)
        take_back();
    if (a.step == 0 && is_mode("errors"))
        meet_errors();
    if (a.step >= STEPS) {
        EQUAL(FTKIT_OK, ftkit_end(a.ft));
        return;
    }
    (void)FTK_FAULT("app.step");
    step_chunks(a.comm, a.x, a.step);
    a.step++;
    give();
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
    EQUAL(FTKIT_OK, ftkit_bind_comm(a.ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    EQUAL(FTKIT_OK, ftkit_on_repair(a.ft, on_repair, NULL));
    EQUAL(FTKIT_OK, ftkit_register_replicated(a.ft, "step", &a.step, 1, MPI_INT64_T));
    int rc = ftkit_register_joint_files(a.ft, "state");
    if (rc == FTKIT_OK && is_mode("two"))
        rc = ftkit_register_joint_files(a.ft, "more");
    if (rc == FTKIT_OK && is_mode("errors"))
        meet_early();
    if (rc == FTKIT_OK && is_mode("alone"))
        rc = ftkit_recover(a.ft, &(uint64_t){ 0 });
    return rc;
}

static void write_result(const char *path)
{
    const int64_t sum = sum_chunks(a.comm, a.x), errors = sum_of(a.comm, a.errors);
    if (me != 0)
        return;
    FILE *f = fopen(path, "w");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, sum %lld", (int)a.step, (long long)sum) > 0);
    TRUE(errors == 0 || fprintf(f, ", %d errors, the last %d", (int)errors, a.last_error) > 0);
    TRUE(fputs("\n", f) >= 0);
    EQUAL(0, fclose(f));
}

int main(int argc, char **argv)
{
    a.mode = argc > 3 ? argv[3] : "posix";
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &a.ft) != FTKIT_OK)
        return 1;
    int rc = set_up();
    const bool ready = rc >= 0;
    while (ready && ftkit_step(a.ft, &rc))
        body(rc);
    if (rc < 0)
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(a.ft));
    else
        write_result(argv[2]);
    int closed = ftkit_close(&a.ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}

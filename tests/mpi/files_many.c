/* A program with many files of all sizes: names, permissions and bytes of each are checked in every
 * restore, and that there is no other file.
 *
 *   files_many -o RESULT COUNT [LARGE]
 *
 * COUNT files a rank; LARGE: bytes of one more file of rank 1, with holes.  Rank 0 writes the steps
 * and the number of restores of all ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/ftk.h"
#include "ftkit.h"

enum { STEPS = 8, MOST = 150000, PIECE = 4096 };

static struct {
    MPI_Comm comm;
    int count;
    off_t large;
    int64_t step; /* registered */
    int64_t restores;
    unsigned char buf[2 * MOST];
} a;

/* Bytes that depend on the file, the rank and the step. */
static void fill(unsigned char *to, size_t bytes, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        to[i] = (unsigned char)(x >> 56);
    }
}

static uint64_t seed_of(int file, int rank)
{
    return ((uint64_t)a.step << 40) + ((uint64_t)rank << 24) + (uint64_t)file;
}

/* Most files are small; lengths around multiples of the library's blocks come, too. */
static size_t bytes_of(int file, int rank)
{
    static const size_t odd[] = { 0, 1, 63, 64, 65, 4095, 4096, 4097, 65536, 65537, MOST };
    const uint64_t s = seed_of(file, rank);
    if (file < 11)
        return odd[file];
    return file % 50 == 0 ? 20000 + s * 2654435761u % 40000 : s * 2654435761u % 700;
}

static mode_t mode_of(int file)
{
    static const mode_t modes[] = { 0600, 0644, 0755, 0440, 0777, 0400 };
    return modes[((uint64_t)file + (uint64_t)a.step) % 6];
}

static void path_of(char path[4096], const char *dir, int file, int rank)
{
    static const char *const forms[] = { "%s/f%d-%d", "%s/d %d/%d.dat", "%s/.h/\xc3\xbc%d/%d",
        "%s/=x=%d,%d;" };
    snprintf(path, 4096, forms[file % 4], dir, file % 4 == 1 || file % 4 == 2 ? file % 32 : file,
        file % 4 == 1 || file % 4 == 2 ? file : rank);
}

static int make_dirs(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/.h", dir);
    int rc = mkdir(path, 0755);
    for (int i = 0; i < 32; i++) {
        snprintf(path, sizeof path, i % 4 == 1 ? "%s/d %d" : "%s/.h/\xc3\xbc%d", dir, i);
        if (i % 4 == 1 || i % 4 == 2)
            rc |= mkdir(path, 0750);
    }
    return rc;
}

/* A piece at the beginning, behind 4 GiB, and at the end; between them there is nothing. */
static void place_of(off_t at[3])
{
    at[0] = 0;
    at[1] = a.large / 2 + 1;
    at[2] = a.large - PIECE;
}

static int write_large(const char *dir)
{
    char path[4096];
    off_t at[3];
    place_of(at);
    snprintf(path, sizeof path, "%s/large", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    int rc = fd < 0 ? -1 : 0;
    for (int i = 0; rc == 0 && i < 3; i++) {
        fill(a.buf, PIECE, seed_of(-1 - i, me));
        rc = pwrite(fd, a.buf, PIECE, at[i]) == PIECE ? 0 : -1;
    }
    return fd >= 0 && close(fd) == 0 ? rc : -1;
}

static void check_large(const char *dir, int rank)
{
    char path[4096];
    off_t at[3];
    struct stat st;
    place_of(at);
    snprintf(path, sizeof path, "%s/large", dir);
    int fd = open(path, O_RDONLY);
    TRUE(fd >= 0 && fstat(fd, &st) == 0);
    EQUAL(a.large, st.st_size);
    for (int i = 0; i < 3; i++) {
        fill(a.buf + MOST, PIECE, seed_of(-1 - i, rank));
        EQUAL(PIECE, pread(fd, a.buf, PIECE, at[i]));
        TRUE(memcmp(a.buf, a.buf + MOST, PIECE) == 0);
    }
    memset(a.buf, 0, sizeof a.buf);
    for (off_t p = PIECE; p < a.large - PIECE; p += MOST) { /* all else is zero */
        const off_t most = a.large - PIECE - p < MOST ? a.large - PIECE - p : MOST;
        EQUAL(most, pread(fd, a.buf, (size_t)most, p));
        if (p <= at[1] + PIECE && p + most > at[1])
            continue;
        TRUE(memcmp(a.buf, a.buf + MOST, (size_t)most) == 0);
    }
    EQUAL(0, close(fd));
}

static int write_files(void *arg, const char *dir)
{
    char path[4096];
    (void)arg;
    int rc = make_dirs(dir);
    for (int i = 0; rc == 0 && i < a.count; i++) {
        const size_t bytes = bytes_of(i, me);
        path_of(path, dir, i, me);
        fill(a.buf, bytes, seed_of(i, me));
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        rc = fd >= 0 && write(fd, a.buf, bytes) == (ssize_t)bytes && fchmod(fd, mode_of(i)) == 0
                     && close(fd) == 0
                 ? 0
                 : -1;
        if (i == a.count / 2)
            (void)FTK_FAULT("app.writing");
    }
    return rc == 0 && me == 1 && a.large > 0 ? write_large(dir) : rc;
}

static int count_files(const char *path)
{
    DIR *d = opendir(path);
    int count = 0;
    TRUE(d != NULL);
    for (const struct dirent *e; (e = readdir(d));) {
        char below[4096];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        EQUAL(0, lstat(below, &st));
        count += S_ISDIR(st.st_mode) ? count_files(below) : 1;
    }
    EQUAL(0, closedir(d));
    return count;
}

static void check_files(const char *dir, int rank)
{
    char path[4096];
    struct stat st;
    for (int i = 0; i < a.count; i++) {
        const size_t bytes = bytes_of(i, rank);
        path_of(path, dir, i, rank);
        int fd = open(path, O_RDONLY);
        TRUE(fd >= 0);
        EQUAL(0, fstat(fd, &st));
        EQUAL(mode_of(i), st.st_mode & 0777);
        EQUAL(bytes, st.st_size);
        fill(a.buf + MOST, bytes, seed_of(i, rank));
        EQUAL(bytes, read(fd, a.buf, MOST));
        TRUE(memcmp(a.buf, a.buf + MOST, bytes) == 0);
        EQUAL(0, close(fd));
    }
    const bool large = rank == 1 && a.large > 0;
    EQUAL(a.count + large, count_files(dir));
    if (large)
        check_large(dir, rank);
    a.restores++;
}

static int read_files(void *arg, const char *dir)
{
    (void)arg;
    check_files(dir, me);
    (void)FTK_FAULT("app.reading");
    return 0;
}

static int read_ranks(void *arg, ftkit_ctx *ft, const char *name, int old_ranks)
{
    char dir[1100];
    (void)arg;
    for (int q = me; q < old_ranks; q += n) {
        if (ftkit_files_of(ft, name, q, dir, sizeof dir) != FTKIT_OK)
            return -1;
        check_files(dir, q);
    }
    return 0;
}

static void write_result(const char *path)
{
    int64_t all = 0;
    (void)MPI_Allreduce(&a.restores, &all, 1, MPI_INT64_T, MPI_SUM, a.comm);
    if (me != 0)
        return;
    FILE *f = fopen(path, "w");
    TRUE(f != NULL);
    TRUE(fprintf(f, "%d steps, %d restores\n", (int)a.step, (int)all) > 0);
    EQUAL(0, fclose(f));
}

int main(int argc, char **argv)
{
    const ftkit_files ops = { sizeof ops, write_files, read_files };
    ftkit_ctx *ft;
    int rc, one = 1;
    if (argc < 4)
        return 2;
    a.count = atoi(argv[3]);
    a.large = argc > 4 ? (off_t)atoll(argv[4]) : 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 1;
    EQUAL(FTKIT_OK, ftkit_bind_comm(ft, &a.comm));
    MPI_Comm_rank(a.comm, &me);
    MPI_Comm_size(a.comm, &n);
    EQUAL(FTKIT_OK, ftkit_register_replicated(ft, "step", &a.step, 1, MPI_INT64_T));
    EQUAL(FTKIT_OK, ftkit_register_files(ft, "many", &ops, NULL));
    EQUAL(FTKIT_OK, ftkit_files_any_ranks(ft, "many", read_ranks));
    while (ftkit_step(ft, &rc)) {
        if (rc < 0)
            fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
        if (a.step == STEPS) {
            EQUAL(FTKIT_OK, ftkit_end(ft));
            continue;
        }
        (void)FTK_FAULT("app.step");
        (void)MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_MAX, a.comm);
        a.step++;
    }
    if (rc < 0)
        fprintf(stderr, "rank %d: %s: %s\n", me, ftkit_strerror(rc), ftkit_detail(ft));
    else
        write_result(argv[2]);
    int closed = ftkit_close(&ft);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}

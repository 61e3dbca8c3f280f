/* Archives of directories, and the directories in which files are passed on: what a program has
 * written comes back, and nothing strange, changed or damaged passes.
 *
 * t_archive --write-golden FILE writes tests/data/archive-v1.bin, which pins the format: a change
 * that needs a new file breaks every set with files and takes a new version.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/archive.h"
#include "store/scratch.h"

#define DEEP "sub/deeper/last"
#define LARGE ((size_t)700000)

static struct ftk_scratch from, to;

static char content(const char *name, size_t i)
{
    return (char)(i * 31 + i / 257 + (unsigned char)name[0] + strlen(name));
}

static const char *in(const struct ftk_scratch *s, const char *name)
{
    static char path[8][sizeof s->path + 512];
    static unsigned turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", s->path, name);
    return p;
}

static void make_file(const char *name, size_t bytes, mode_t mode)
{
    FILE *f = fopen(in(&from, name), "w");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(fputc(content(name, i), f), (unsigned char)content(name, i));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(in(&from, name), mode), 0);
}

static void check_file(const char *name, size_t bytes, mode_t mode)
{
    struct stat st;
    assert_int_equal(stat(in(&to, name), &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    assert_int_equal(st.st_size, bytes);
    FILE *f = fopen(in(&to, name), "r");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        if (fgetc(f) != (unsigned char)content(name, i))
            fail_msg("%s: byte %zu", name, i);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* Files of all kinds that a set takes. */
static void make_tree(void)
{
    make_file("text", 17, 0644);
    make_file("none", 0, 0600);
    make_file("aligned", 64, 0640);
    make_file("large", LARGE, 0400);
    make_file(".hidden", 1, 0777);
    assert_int_equal(mkdir(in(&from, "sub"), 0755), 0);
    assert_int_equal(mkdir(in(&from, "sub/deeper"), 0700), 0);
    assert_int_equal(mkdir(in(&from, "empty"), 0711), 0);
    make_file(DEEP, 4097, 0444);
    make_file("sub-file", 5, 0600); /* '-' sorts in front of '/' */
}

static void check_tree(void)
{
    struct stat st;
    check_file("text", 17, 0644);
    check_file("none", 0, 0600);
    check_file("aligned", 64, 0640);
    check_file("large", LARGE, 0400);
    check_file(".hidden", 1, 0777);
    check_file(DEEP, 4097, 0444);
    check_file("sub-file", 5, 0600);
    assert_int_equal(entries(to.path), 8);
    assert_int_equal(entries(in(&to, "sub")), 1);
    assert_int_equal(entries(in(&to, "empty")), 0);
    assert_int_equal(stat(in(&to, "empty"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0711);
}

static int setup(void **state)
{
    (void)state;
    umask(022);
    assert_int_equal(ftk_scratch_make("", &from), FTKIT_OK);
    assert_int_equal(ftk_scratch_make("", &to), FTKIT_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct stat st;
    ftk_scratch_remove(&from);
    ftk_scratch_remove(&to);
    assert_int_equal(stat(from.path, &st), -1);
    return 0;
}

/* The archive of a directory, read in pieces of so many bytes; malloc'd. */
static char *take(const char *dir, size_t piece, size_t *bytes)
{
    struct ftk_archive *a = NULL;
    assert_int_equal(ftk_archive_scan(dir, &a), FTKIT_OK);
    *bytes = ftk_archive_bytes(a);
    char *buf = malloc(*bytes);
    assert_non_null(buf);
    memset(buf, 0x55, *bytes);
    for (size_t at = 0; at < *bytes; at += piece)
        assert_int_equal(
            ftk_archive_read(a, buf + at, at, *bytes - at < piece ? *bytes - at : piece), FTKIT_OK);
    ftk_archive_free(a);
    return buf;
}

static void comes_back(void **state)
{
    (void)state;
    static const size_t pieces[] = { SIZE_MAX, 262144, 4096, 63, 1 };
    char *first = NULL;
    size_t bytes, had = 0;
    bool absent = true;
    make_tree();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char *buf = take(from.path, pieces[i], &bytes);
        if (first) {
            assert_int_equal(bytes, had);
            assert_memory_equal(buf, first, bytes);
            free(buf);
        } else {
            first = buf;
            had = bytes;
        }
    }
    assert_int_equal(ftk_archive_unpack(first, bytes, to.path, &absent), FTKIT_OK);
    assert_false(absent);
    check_tree();
    assert_int_equal(ftk_archive_unpack(first, bytes, to.path, &absent), FTKIT_ERR_IO); /* full */
    assert_int_equal(ftk_scratch_empty(&to), FTKIT_OK);
    assert_int_equal(entries(to.path), 0);
    free(first);
}

static void empty_and_absent(void **state)
{
    (void)state;
    size_t bytes;
    bool absent = true;
    char *buf = take(from.path, SIZE_MAX, &bytes);
    assert_int_equal(bytes, sizeof(struct ftk_archive_head));
    assert_int_equal(ftk_archive_unpack(buf, bytes, to.path, &absent), FTKIT_OK);
    assert_false(absent);
    assert_int_equal(entries(to.path), 0);
    free(buf);
    buf = take(NULL, SIZE_MAX, &bytes);
    assert_int_equal(ftk_archive_unpack(buf, bytes, to.path, &absent), FTKIT_OK);
    assert_true(absent);
    free(buf);
}

/* A scan of `from` fails with this code, and the text has the words. */
static void refuses(int code, const char *words)
{
    struct ftk_archive *a = NULL;
    assert_int_equal(ftk_archive_scan(from.path, &a), code);
    assert_null(a);
    if (!strstr(ftk_detail_text(), words))
        fail_msg("'%s' has no '%s'", ftk_detail_text(), words);
    assert_int_equal(ftk_scratch_empty(&from), FTKIT_OK);
    assert_int_equal(entries(from.path), 0);
}

static void strange_files(void **state)
{
    (void)state;
    make_file("text", 17, 0644);
    assert_int_equal(symlink("text", in(&from, "link")), 0);
    refuses(FTKIT_ERR_UNSUPPORTED, "link is a symbolic link");
    assert_int_equal(mkdir(in(&from, "sub"), 0755), 0);
    assert_int_equal(symlink("/", in(&from, "sub/root")), 0); /* emptying must not follow it */
    refuses(FTKIT_ERR_UNSUPPORTED, "sub/root is a symbolic link");
    assert_int_equal(mkfifo(in(&from, "pipe"), 0600), 0);
    refuses(FTKIT_ERR_UNSUPPORTED, "pipe is a named pipe");
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_true(strlen(in(&from, "socket")) < sizeof addr.sun_path);
    memcpy(addr.sun_path, in(&from, "socket"), strlen(in(&from, "socket")) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    refuses(FTKIT_ERR_UNSUPPORTED, "socket is a socket");
    close(fd);
    if (mknod(in(&from, "null"), S_IFCHR | 0600, 0x103) == 0) /* needs root */
        refuses(FTKIT_ERR_UNSUPPORTED, "null is a device");
}

static void long_names(void **state)
{
    (void)state;
    char name[256];
    size_t bytes;
    bool absent;
    memset(name, 'n', sizeof name - 1);
    name[255] = '\0';
    make_file(name, 3, 0600); /* 255 bytes are possible */
    char *buf = take(from.path, SIZE_MAX, &bytes);
    assert_int_equal(ftk_archive_unpack(buf, bytes, to.path, &absent), FTKIT_OK);
    check_file(name, 3, 0600);
    free(buf);
    assert_int_equal(mkdir(in(&from, "s"), 0755), 0);
    name[254] = '\0';
    char path[300];
    snprintf(path, sizeof path, "s/%s", name);
    make_file(path, 3, 0600); /* 256 */
    refuses(FTKIT_ERR_NAME, "the path has 256 bytes, 255 are possible");
}

/* Scan, change something, and read: the code. */
static int changed(void (*change)(void))
{
    struct ftk_archive *a = NULL;
    static char buf[2 * LARGE];
    make_file("a", 5000, 0600);
    make_file("b", LARGE, 0600);
    make_file("c", 0, 0600);
    assert_int_equal(mkdir(in(&from, "d"), 0755), 0);
    assert_int_equal(ftk_archive_scan(from.path, &a), FTKIT_OK);
    size_t bytes = ftk_archive_bytes(a);
    int rc = ftk_archive_read(a, buf, 0, 3000);
    if (change)
        change();
    if (rc == FTKIT_OK)
        rc = ftk_archive_read(a, buf + 3000, 3000, bytes - 3000);
    ftk_archive_free(a);
    assert_int_equal(ftk_scratch_empty(&from), FTKIT_OK);
    return rc;
}

static void grow_b(void)
{
    FILE *f = fopen(in(&from, "b"), "a");
    assert_non_null(f);
    fputc('x', f);
    assert_int_equal(fclose(f), 0);
}

static void grow_a(void) /* it is open */
{
    FILE *f = fopen(in(&from, "a"), "a");
    assert_non_null(f);
    fputc('x', f);
    assert_int_equal(fclose(f), 0);
}

static void shorten_a(void)
{
    assert_int_equal(truncate(in(&from, "a"), 1000), 0);
}

static void remove_b(void)
{
    assert_int_equal(unlink(in(&from, "b")), 0);
}

static void replace_b(void)
{
    assert_int_equal(rename(in(&from, "b"), in(&from, "old")), 0);
    make_file("b", LARGE, 0600);
}

static void pipe_b(void)
{
    assert_int_equal(unlink(in(&from, "b")), 0);
    assert_int_equal(mkfifo(in(&from, "b"), 0600), 0);
}

static void grow_c(void) /* it was empty */
{
    assert_int_equal(truncate(in(&from, "c"), 1), 0);
}

static void remove_c(void)
{
    assert_int_equal(unlink(in(&from, "c")), 0);
}

static void remove_d(void)
{
    assert_int_equal(rmdir(in(&from, "d")), 0);
}

static void file_for_d(void)
{
    remove_d();
    make_file("d", 0, 0755);
}

static void add_in_d(void)
{
    make_file("d/new", 0, 0600);
}

static void add_last(void)
{
    make_file("e", 10, 0600);
}

static void link_e(void)
{
    assert_int_equal(symlink("a", in(&from, "e")), 0);
}

/* As many bytes, and the time of the file is set back: the time of the inode differs. */
static void change_b_back(void)
{
    struct stat st;
    int fd = open(in(&from, "b"), O_WRONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    (void)usleep(20000); /* more than a tick of the clock of files */
    assert_int_equal(write(fd, "other", 5), 5);
    const struct timespec times[2] = { st.st_atim, st.st_mtim };
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
}

static void changing_names(void **state)
{
    (void)state;
    assert_int_equal(changed(grow_c), FTKIT_ERR_STATE);
    assert_non_null(strstr(ftk_detail_text(), "c changes while it is taken"));
    assert_int_equal(changed(remove_c), FTKIT_ERR_STATE);
    assert_non_null(strstr(ftk_detail_text(), "c changes while it is taken"));
    assert_int_equal(changed(remove_d), FTKIT_ERR_STATE);
    assert_int_equal(changed(file_for_d), FTKIT_ERR_STATE);
    assert_int_equal(changed(add_in_d), FTKIT_ERR_STATE);
    assert_non_null(strstr(ftk_detail_text(), "d/new changes while it is taken"));
    assert_int_equal(changed(add_last), FTKIT_ERR_STATE);
    assert_non_null(strstr(ftk_detail_text(), "e changes while it is taken"));
    assert_int_equal(changed(link_e), FTKIT_ERR_UNSUPPORTED);
    assert_int_equal(changed(change_b_back), FTKIT_ERR_STATE);
}

static void changing_files(void **state)
{
    (void)state;
    assert_int_equal(changed(NULL), FTKIT_OK);
    assert_int_equal(changed(grow_b), FTKIT_ERR_STATE);
    assert_non_null(strstr(ftk_detail_text(), "b changes while it is taken"));
    assert_int_equal(changed(grow_a), FTKIT_ERR_STATE);
    assert_int_equal(changed(shorten_a), FTKIT_ERR_STATE);
    assert_int_equal(changed(remove_b), FTKIT_ERR_IO);
    assert_int_equal(changed(replace_b), FTKIT_ERR_STATE);
    assert_int_equal(changed(pipe_b), FTKIT_ERR_STATE);
}

/* Faults are armed for ranks. */
static void failing_calls(void **state)
{
    (void)state;
    size_t bytes;
    bool absent;
    make_file("a", 5000, 0600);
    char *buf = take(from.path, SIZE_MAX, &bytes);
    ftk_fault_rank(1, 0);
    assert_int_equal(changed(NULL), FTKIT_ERR_IO);
    assert_non_null(strstr(ftk_detail_text(), "a: "));
    ftk_fault_rank(2, 0);
    assert_int_equal(changed(NULL), FTKIT_ERR_IO);
    ftk_fault_rank(3, 0);
    assert_int_equal(ftk_archive_unpack(buf, bytes, to.path, &absent), FTKIT_ERR_NOSPACE);
    ftk_fault_rank(4, 0);
    struct ftk_scratch s;
    assert_int_equal(ftk_scratch_make("", &s), FTKIT_ERR_NOSPACE);
    assert_int_equal(s.fd, -1);
    ftk_scratch_remove(&s);
    ftk_fault_rank(5, 0);
    assert_int_equal(ftk_scratch_make("", &s), FTKIT_ERR_IO);
    assert_int_equal(access(s.path, F_OK), -1); /* nothing is left */
    ftk_fault_rank(0, 0);
    assert_int_equal(ftk_scratch_make("/nowhere", &s), FTKIT_ERR_IO);
    free(buf);
}

static void unreadable(void **state)
{
    (void)state;
    if (geteuid() == 0 && seteuid(65534) != 0)
        skip();
    struct ftk_scratch own;
    assert_int_equal(ftk_scratch_make("/tmp", &own), FTKIT_OK);
    struct ftk_archive *a = NULL;
    char path[sizeof own.path + 8];
    snprintf(path, sizeof path, "%s/secret", own.path);
    assert_int_equal(mkdir(path, 0), 0);
    assert_int_equal(ftk_archive_scan(own.path, &a), FTKIT_ERR_IO);
    assert_non_null(strstr(ftk_detail_text(), "secret: "));
    assert_int_equal(ftk_scratch_empty(&own), FTKIT_OK); /* also what cannot be entered */
    int fd = open(path, O_WRONLY | O_CREAT, 0);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    assert_int_equal(ftk_archive_scan(own.path, &a), FTKIT_OK);
    char buf[512];
    assert_int_equal(ftk_archive_read(a, buf, 0, ftk_archive_bytes(a)), FTKIT_ERR_IO);
    ftk_archive_free(a);
    ftk_scratch_remove(&own);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
}

/* ---- damaged archives ---------------------------------------------------------------- */

static void seal(char *buf)
{
    struct ftk_archive_head h;
    memcpy(&h, buf, sizeof h);
    h.sum = 0;
    h.sum = ftk_archive_sum(&h, buf);
    memcpy(buf, &h, sizeof h);
}

/* Unpacking fails with this code and makes nothing. */
static void rejects(const char *buf, size_t bytes, int code)
{
    bool absent;
    char *own = malloc(bytes ? bytes : 1); /* of its size, so that its end is watched */
    assert_non_null(own);
    memcpy(own, buf, bytes);
    assert_int_equal(ftk_archive_unpack(own, bytes, to.path, &absent), code);
    assert_int_equal(entries(to.path), 0);
    free(own);
}

static void damaged_archives(void **state)
{
    (void)state;
    size_t bytes;
    make_file("a", 100, 0600);
    make_file("bb", 200, 0600);
    char *good = take(from.path, SIZE_MAX, &bytes), *bad = malloc(bytes);
    assert_non_null(bad);
    struct ftk_archive_head h;
    memcpy(&h, good, sizeof h);
    rejects(good, 0, FTKIT_ERR_FORMAT);
    rejects(good, 63, FTKIT_ERR_FORMAT);
    rejects(
        "other bytes, which are not an archive, but are long enough for one", 64, FTKIT_ERR_FORMAT);
    for (size_t n = 64; n < bytes; n++) /* cut off */
        rejects(good, n, FTKIT_ERR_CORRUPT);
    for (size_t at = 16; at < h.head_bytes; at++) { /* each byte of the head and of the entries */
        memcpy(bad, good, bytes);
        bad[at] ^= 0x10;
        rejects(bad, bytes, FTKIT_ERR_CORRUPT);
    }
    memcpy(bad, good, bytes);
    ((struct ftk_archive_head *)(void *)bad)->version++;
    seal(bad);
    rejects(bad, bytes, FTKIT_ERR_FORMAT);
    free(good);
    free(bad);
}

/* An archive of one file with a path of the attacker, and with a right checksum. */
static void forged(const char *path, size_t path_bytes, int code)
{
    static _Alignas(8) char buf[1024];
    struct ftk_archive_head h = {
        .version = FTK_ARCHIVE_VERSION, .byte_order = FTK_ARCHIVE_BYTE_ORDER, .nentries = 1
    };
    struct ftk_archive_entry e = {
        .mode = 0600, .kind = FTK_ARCHIVE_FILE, .path_bytes = (uint16_t)path_bytes
    };
    memset(buf, 0, sizeof buf);
    memcpy(h.magic, FTK_ARCHIVE_MAGIC, sizeof h.magic);
    h.head_bytes = h.bytes = sizeof h + (sizeof e + path_bytes + 8) / 8 * 8;
    memcpy(buf, &h, sizeof h);
    memcpy(buf + sizeof h, &e, sizeof e);
    memcpy(buf + sizeof h + sizeof e, path, path_bytes);
    seal(buf);
    if (code == FTKIT_OK) {
        bool absent;
        assert_int_equal(ftk_archive_unpack(buf, h.bytes, to.path, &absent), FTKIT_OK);
        assert_int_equal(ftk_scratch_empty(&to), FTKIT_OK);
    } else {
        rejects(buf, h.bytes, code);
    }
}

static void forged_archives(void **state)
{
    (void)state;
    static const char *const outside[] = { "..", ".", "", "/", "/etc", "../up", "a/..", "a/../b",
        "a//b", "a/", "./a", "a/./b" };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        forged(outside[i], strlen(outside[i]), FTKIT_ERR_CORRUPT);
    forged("a\0b", 3, FTKIT_ERR_CORRUPT);
    static char longest[256];
    memset(longest, 'x', sizeof longest);
    forged(longest, 256, FTKIT_ERR_CORRUPT);
    forged(longest, 255, FTKIT_OK);
    forged("...", 3, FTKIT_OK);
    forged("..a", 3, FTKIT_OK);
}

/* Change one field of an entry or of the head, with a right checksum. */
static void forged_fields(void **state)
{
    (void)state;
    size_t bytes;
    make_file("a", 100, 0600);
    make_file("b", 200, 0600);
    char *good = take(from.path, SIZE_MAX, &bytes), *bad = malloc(bytes);
    assert_non_null(bad);
    const size_t entry = sizeof(struct ftk_archive_head), second = entry + 32;
#define FORGE(where, type, field, value)                                                           \
    do {                                                                                           \
        memcpy(bad, good, bytes);                                                                  \
        ((type *)(void *)(bad + (where)))->field = (value);                                        \
        seal(bad);                                                                                 \
        rejects(bad, bytes, FTKIT_ERR_CORRUPT);                                                    \
    } while (0)
#define ENTRY(where, field, value) FORGE(where, struct ftk_archive_entry, field, value)
    ENTRY(entry, offset, 0);
    ENTRY(entry, offset, 64);
    ENTRY(entry, offset, bytes - 10);
    ENTRY(entry, bytes, UINT64_MAX);
    ENTRY(entry, bytes, bytes);
    ENTRY(entry, bytes, 99 - 64);
    ENTRY(second, bytes, 199);
    ENTRY(second, offset, 192);
    ENTRY(entry, kind, 0);
    ENTRY(entry, kind, 3);
    ENTRY(entry, kind, FTK_ARCHIVE_DIRECTORY);
    ENTRY(entry, mode, 04755);
    ENTRY(second, path_bytes, 60000);
    FORGE(0, struct ftk_archive_head, nentries, 1u);
    FORGE(0, struct ftk_archive_head, nentries, 3u);
    memcpy(bad, good, bytes);
    bad[second + sizeof(struct ftk_archive_entry)] = 'a'; /* twice the same name */
    seal(bad);
    rejects(bad, bytes, FTKIT_ERR_CORRUPT);
    free(good);
    free(bad);
}

/* A file without contents is at no place. */
static void forged_place(void **state)
{
    (void)state;
    size_t bytes;
    make_file("none", 0, 0600);
    char *buf = take(from.path, SIZE_MAX, &bytes);
    ((struct ftk_archive_entry *)(void *)(buf + sizeof(struct ftk_archive_head)))->offset = 64;
    seal(buf);
    rejects(buf, bytes, FTKIT_ERR_CORRUPT);
    free(buf);
}

static void make_golden_tree(void)
{
    make_file("restart.bin", 333, 0644);
    make_file("none", 0, 0600);
    assert_int_equal(mkdir(in(&from, "sub"), 0755), 0);
    make_file("sub/restart.txt", 65, 0440);
}

static void golden_file(void **state)
{
    (void)state;
    static char want[4096];
    char path[4096];
    size_t bytes;
    const char *slash = strrchr(__FILE__, '/');
    const int dir = slash ? (int)(slash - __FILE__) - (int)strlen("unit") : 0;
    snprintf(path, sizeof path, "%.*sdata/archive-v1.bin", dir, __FILE__);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(want, 1, sizeof want, f);
    fclose(f);
    make_golden_tree();
    char *buf = take(from.path, SIZE_MAX, &bytes);
    assert_int_equal(bytes, n);
    assert_memory_equal(buf, want, n);
    free(buf);
    bool absent;
    assert_int_equal(ftk_archive_unpack(want, n, to.path, &absent), FTKIT_OK);
    check_file("restart.bin", 333, 0644);
    check_file("sub/restart.txt", 65, 0440);
    assert_int_equal(entries(to.path), 3);
}

/* ---- directories of ended processes -------------------------------------------------- */

static void leftovers_go(void **state)
{
    (void)state;
    char path[sizeof from.path] = "";
    struct stat st;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct ftk_scratch s;
        int rc = ftk_scratch_make("", &s);
        int fd = open(in(&s, "file"), O_WRONLY | O_CREAT, 0600);
        if (rc != FTKIT_OK || fd < 0 || write(ends[1], s.path, sizeof path) != sizeof path)
            _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(read(ends[0], path, sizeof path), sizeof path);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(stat(path, &st), 0);
    make_file("text", 17, 0600);
    ftk_scratch_sweep("");
    assert_int_equal(stat(path, &st), -1);             /* gone */
    assert_int_equal(stat(in(&from, "text"), &st), 0); /* that of a living process stays */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_and_absent, setup, teardown),
        cmocka_unit_test_setup_teardown(strange_files, setup, teardown),
        cmocka_unit_test_setup_teardown(long_names, setup, teardown),
        cmocka_unit_test_setup_teardown(changing_files, setup, teardown),
        cmocka_unit_test_setup_teardown(changing_names, setup, teardown),
        cmocka_unit_test_setup_teardown(failing_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(unreadable, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_archives, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_archives, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_place, setup, teardown),
        cmocka_unit_test_setup_teardown(golden_file, setup, teardown),
        cmocka_unit_test_setup_teardown(leftovers_go, setup, teardown),
    };
    if (argc == 3 && strcmp(argv[1], "--write-golden") == 0) {
        size_t bytes;
        setup(NULL);
        make_golden_tree();
        char *buf = take(from.path, SIZE_MAX, &bytes);
        FILE *f = fopen(argv[2], "wb");
        assert_true(f && fwrite(buf, 1, bytes, f) == bytes && fclose(f) == 0);
        free(buf);
        return teardown(NULL);
    }
    setenv("FTKIT_FAULT",
        "archive.open:1:1:EIO,archive.read:2:1:EIO,archive.write:3:1:ENOSPC,"
        "scratch.make:4:1:ENOSPC,scratch.lock:5:1:EIO",
        1);
    ftk_fault_rank(0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

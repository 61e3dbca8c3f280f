/* What the tests of the public calls share: one rank, contexts with sets in a directory
 * of their own.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_API_H
#define T_API_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ftkit.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SCRIBBLE 0xee

static char work[256]; /* we are in it; removed at the end, with all below it */

/* ---- Checks -------------------------------------------------------------------------- */

static inline void check_rc(int line, const char *call, int want, int rc, const ftkit_ctx *ft)
{
    if (rc != want)
        fail_msg("line %d: %s: %d (%s), not %d (%s): %s", line, call, rc, ftkit_strerror(rc), want,
            ftkit_strerror(want), ftkit_detail(ft));
}
#define CHECK(want, ft, call) check_rc(__LINE__, #call, (want), (call), (ft))

/* An error whose text has each of the words (separated by '|') in it. */
static inline void check_error(
    int line, const char *call, int want, int rc, const ftkit_ctx *ft, const char *words)
{
    char copy[512];
    char *save = NULL;
    const char *detail = ftkit_detail(ft);
    check_rc(line, call, want, rc, ft);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save))
        if (!strstr(detail, w))
            fail_msg("line %d: %s: '%s' is not in the detail '%s'", line, call, w, detail);
    for (const char *p = detail; *p; p++)
        if (*p < ' ' || *p > '~')
            fail_msg(
                "line %d: %s: byte 0x%02x in the detail", line, call, (unsigned)(unsigned char)*p);
    if (strlen(detail) < 15)
        fail_msg("line %d: %s: '%s' is no help", line, call, detail);
}
#define CHECK_ERROR(want, ft, words, call)                                                         \
    check_error(__LINE__, #call, (want), (call), (ft), (words))

/* ---- Contexts ------------------------------------------------------------------------ */

static inline ftkit_ctx *open_context(void)
{
    ftkit_ctx *ft = NULL;
    CHECK(FTKIT_OK, NULL, ftkit_open(MPI_COMM_SELF, NULL, &ft));
    assert_non_null(ft);
    return ft;
}

static inline void close_context(ftkit_ctx **ft)
{
    CHECK(FTKIT_OK, NULL, ftkit_close(ft));
    assert_null(*ft);
}

static inline ftkit_info query(const ftkit_ctx *ft)
{
    ftkit_info info = { .size = sizeof info };
    CHECK(FTKIT_OK, ft, ftkit_query(ft, &info));
    return info;
}

/* A set on the file system, now. */
static inline void save(ftkit_ctx *ft)
{
    uint64_t before = query(ft).committed;
    CHECK(FTKIT_OK, ft, ftkit_request(ft, 1));
    CHECK(FTKIT_OK, ft, ftkit_checkpoint(ft));
    CHECK(FTKIT_OK, ft, ftkit_wait(ft));
    ftkit_info info = query(ft);
    assert_int_equal(info.flushing, 0);
    assert_int_equal(info.committed, before + 1);
    assert_int_equal(info.durable, info.committed);
}

/* ---- Bytes --------------------------------------------------------------------------- */

static inline void fill(void *data, size_t bytes, uint64_t seed)
{
    unsigned char *p = data;
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        p[i] = (unsigned char)(x >> 56);
    }
}

static inline void *filled(size_t bytes, uint64_t seed)
{
    void *p = malloc(bytes ? bytes : 1);
    assert_non_null(p);
    fill(p, bytes, seed);
    return p;
}

/* Bytes [from, to) of a are those of b. */
static inline void check_bytes(
    const char *what, const void *a, const void *b, size_t from, size_t to)
{
    const unsigned char *x = a;
    const unsigned char *y = b;
    for (size_t i = from; i < to; i++)
        if (x[i] != y[i])
            fail_msg("%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, to, (unsigned)x[i],
                (unsigned)y[i]);
}

/* ---- Directories --------------------------------------------------------------------- */

/* Each test has an empty directory of its own as the working directory, which is where
 * sets go by default. */
static inline int enter(void **state)
{
    static int n;
    char name[32];
    (void)state;
    snprintf(name, sizeof name, "test-%d", n++);
    return chdir(work) != 0 || mkdir(name, 0755) != 0 || chdir(name) != 0;
}

static inline int leave(void **state)
{
    (void)state;
    return chdir(work) != 0;
}
#define TEST(f)                                                                                    \
    {                                                                                              \
#f, f, enter, leave, NULL                                                                  \
    }

static inline int remove_work(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", work);
    return chdir("/") != 0 || system(command) != 0;
}

static inline int make_work(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(work, sizeof work, "%s/t_api.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return !mkdtemp(work);
}

#endif

/* The manifest of a set (see manifest.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     ftkit.manifest = 2
 *     context = heat
 *     program = heat2d
 *     set = 12
 *     run = 81985529216486895
 *     nranks = 4
 *     nparts = 2
 *     part = 0 2 1052672 00112233aabbccdd      number, ranks, bytes, sum of their heads
 *     part = 1 2 1052672 8899aabbccddeeff
 *     ranks = 0 1 0                            first, last, index of their part
 *     ranks = 2 3 1
 *     checksum = 0123456789abcdef              XXH3-64 of everything before this line
 *
 * Version 1, of older sets, has no program.  Each manifest has exactly one spelling: a text that
 * differs in a single bit is no manifest.  Parts are numbers, never paths. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "file.h"
#include "manifest.h"
#include "sets_dir.h"

#define TEXT_MAX (16u << 20)
#define SUM_LINE 28 /* "checksum = " and 16 digits and '\n' */
#define PART_LINE_MIN (sizeof "part = 0 1 0 0123456789abcdef\n" - 1)

void ftk_manifest_free(struct ftk_manifest *m)
{
    free(m->parts);
    free(m->part_of);
    memset(m, 0, sizeof *m);
}

/* Whether each part has as many ranks as part_of assigns to the part, and at least one. */
static bool is_consistent(const struct ftk_manifest *m)
{
    uint32_t *n = calloc(m->nparts ? m->nparts : 1, sizeof *n);
    bool good = n != NULL;
    for (uint32_t i = 0; i < m->nranks && good; i++) {
        good = m->part_of[i] < m->nparts;
        if (good)
            n[m->part_of[i]]++;
    }
    for (uint32_t i = 0; i < m->nparts && good; i++)
        good = n[i] > 0 && n[i] == m->parts[i].nranks;
    free(n);
    return good;
}

/* ---- writing ------------------------------------------------------------------------- */

static void sum_line(const char *text, size_t bytes, char line[SUM_LINE + 1])
{
    snprintf(line, SUM_LINE + 1, "checksum = %016" PRIx64 "\n", ftk_xxh3(text, bytes));
}

int ftk_manifest_text(const struct ftk_manifest *m, char **text, size_t *bytes)
{
    char line[SUM_LINE + 1];
    if (m->nranks < 1 || m->nranks > FTK_MANIFEST_RANKS_MAX || !is_consistent(m))
        return ftk_fail(FTKIT_ERR_ARG,
            "set %" PRIu64 ": %" PRIu32 " parts do not hold the %" PRIu32 " ranks", m->set,
            m->nparts, m->nranks);
    FILE *f = open_memstream(text, bytes);
    if (!f)
        return ftk_fail_errno(errno, "manifest of set %" PRIu64, m->set);
    fprintf(f, "ftkit.manifest = %d\ncontext = %s\n", *m->program ? 2 : 1, m->context);
    if (*m->program)
        fprintf(f, "program = %s\n", m->program);
    fprintf(f, "set = %" PRIu64 "\nrun = %" PRIu64 "\nnranks = %" PRIu32 "\nnparts = %" PRIu32 "\n",
        m->set, m->run, m->nranks, m->nparts);
    for (uint32_t i = 0; i < m->nparts; i++)
        fprintf(f, "part = %" PRIu32 " %" PRIu32 " %" PRIu64 " %016" PRIx64 "\n", m->parts[i].part,
            m->parts[i].nranks, m->parts[i].file_bytes, m->parts[i].heads_xxh);
    for (uint32_t first = 0, last; first < m->nranks; first = last + 1) {
        for (last = first; last + 1 < m->nranks; last++)
            if (m->part_of[last + 1] != m->part_of[first])
                break;
        fprintf(f, "ranks = %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", first, last, m->part_of[first]);
    }
    if (fflush(f) == 0) {
        sum_line(*text, *bytes, line);
        fputs(line, f);
    }
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) {
        free(*text);
        return ftk_fail(FTKIT_ERR_NOMEM, "manifest of set %" PRIu64, m->set);
    }
    if (*bytes <= TEXT_MAX)
        return FTKIT_OK;
    free(*text);
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "manifest of set %" PRIu64 ": %zu bytes, order the ranks by part", m->set, *bytes);
}

/* ---- reading ------------------------------------------------------------------------- */

struct cursor {
    const char *p, *end;
};

static bool literal(struct cursor *c, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0)
        return false;
    c->p += n;
    return true;
}

/* A decimal number as printf() writes it. */
static bool number(struct cursor *c, uint64_t max, uint64_t *out)
{
    const char *first = c->p;
    uint64_t v = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v)
            || __builtin_add_overflow(v, (uint64_t)(*c->p - '0'), &v))
            return false;
    }
    *out = v;
    return c->p > first && (*first != '0' || c->p == first + 1) && v <= max;
}

static bool number32(struct cursor *c, uint32_t max, uint32_t *out)
{
    uint64_t v;
    bool good = number(c, max, &v);
    *out = good ? (uint32_t)v : 0;
    return good;
}

static bool hex16(struct cursor *c, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    *out = 0;
    if (c->end - c->p < 16)
        return false;
    for (int i = 0; i < 16; i++) {
        const char *d = memchr(digits, *c->p++, 16);
        if (!d)
            return false;
        *out = *out << 4 | (uint64_t)(d - digits);
    }
    return true;
}

/* The rest of a line, without the newline. */
static bool text64(struct cursor *c, char out[64])
{
    const char *nl = memchr(c->p, '\n', (size_t)(c->end - c->p));
    if (!nl || nl - c->p >= 64)
        return false;
    memcpy(out, c->p, (size_t)(nl - c->p));
    c->p = nl;
    return true;
}

/* The names.  The name of the program must not be empty: a manifest without a program has
 * version 1, and there must be one spelling only. */
static bool parse_names(struct cursor *c, struct ftk_manifest *m)
{
    bool first = literal(c, "ftkit.manifest = 1\n");
    if (!first && !literal(c, "ftkit.manifest = 2\n"))
        return false;
    if (!literal(c, "context = ") || !text64(c, m->context))
        return false;
    if (first)
        return true;
    return literal(c, "\nprogram = ") && text64(c, m->program)
           && ftk_sets_dir_check(m->program) == FTKIT_OK;
}

static bool parse_head(struct cursor *c, struct ftk_manifest *m)
{
    return parse_names(c, m) && literal(c, "\nset = ") && number(c, UINT64_MAX, &m->set)
           && literal(c, "\nrun = ") && number(c, UINT64_MAX, &m->run) && literal(c, "\nnranks = ")
           && number32(c, FTK_MANIFEST_RANKS_MAX, &m->nranks) && literal(c, "\nnparts = ")
           && number32(c, m->nranks, &m->nparts) && literal(c, "\n") && m->nranks > 0
           && (size_t)(c->end - c->p) / PART_LINE_MIN >= m->nparts;
}

static bool parse_parts(struct cursor *c, struct ftk_manifest *m)
{
    for (uint32_t i = 0; i < m->nparts; i++) {
        struct ftk_manifest_part *p = &m->parts[i];
        if (!literal(c, "part = ") || !number32(c, UINT32_MAX, &p->part) || !literal(c, " ")
            || !number32(c, m->nranks, &p->nranks) || !literal(c, " ")
            || !number(c, INT64_MAX, &p->file_bytes) || !literal(c, " ") || !hex16(c, &p->heads_xxh)
            || !literal(c, "\n"))
            return false;
    }
    uint32_t next = 0;
    while (next < m->nranks) {
        uint32_t first, last, part;
        if (!literal(c, "ranks = ") || !number32(c, m->nranks - 1, &first) || !literal(c, " ")
            || !number32(c, m->nranks - 1, &last) || !literal(c, " ")
            || !number32(c, UINT32_MAX, &part) || !literal(c, "\n") || first != next || last < first
            || part >= m->nparts)
            return false;
        for (; next <= last; next++)
            m->part_of[next] = part;
    }
    return c->p == c->end;
}

/* Parse a text whose checksum was right; text ends before the line of the checksum. */
static int parse(const char *text, size_t bytes, uint64_t set, struct ftk_manifest *m)
{
    struct cursor c = { text, text + bytes };
    if (!parse_head(&c, m))
        return ftk_fail(
            FTKIT_ERR_FORMAT, "manifest of set %" PRIu64 ": damaged, or of a newer ftkit", set);
    m->parts = calloc(m->nparts ? m->nparts : 1, sizeof *m->parts);
    m->part_of = calloc(m->nranks, sizeof *m->part_of);
    if (!m->parts || !m->part_of)
        return ftk_fail(FTKIT_ERR_NOMEM, "manifest of set %" PRIu64, set);
    if (!parse_parts(&c, m) || !is_consistent(m))
        return ftk_fail(FTKIT_ERR_FORMAT, "parts in the manifest of set %" PRIu64, set);
    return FTKIT_OK;
}

static int read_text(int dirfd, uint64_t set, char **text, size_t *bytes)
{
    struct ftk_file f;
    size_t n, have = 0;
    int rc = ftk_file_open(dirfd, set, FTK_MANIFEST_FILE, &f, &n);
    if (rc != FTKIT_OK)
        return rc;
    char *buf = NULL;
    if (n <= SUM_LINE || n > TEXT_MAX)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: %zu bytes", f.what, n);
    else if (!(buf = malloc(n)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s: %zu bytes", f.what, n);
    while (rc == FTKIT_OK && have < n) {
        ssize_t got = read(f.fd, buf + have, n - have);
        if (got > 0)
            have += (size_t)got;
        else if (got == 0)
            rc = ftk_fail(FTKIT_ERR_CORRUPT, "%s: it has shrunk", f.what);
        else if (errno != EINTR)
            rc = ftk_fail_errno(errno, "%s: read", f.what);
    }
    ftk_file_close(&f);
    if (rc == FTKIT_OK) {
        *text = buf;
        *bytes = n;
    } else {
        free(buf);
    }
    return rc;
}

int ftk_manifest_load(int dirfd, const char *context, uint64_t set, struct ftk_manifest *m)
{
    char *text;
    size_t bytes;
    char line[SUM_LINE + 1];
    memset(m, 0, sizeof *m);
    int rc = read_text(dirfd, set, &text, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    sum_line(text, bytes - SUM_LINE, line);
    if (memcmp(text + bytes - SUM_LINE, line, SUM_LINE) != 0)
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "checksum of the manifest of set %" PRIu64, set);
    else
        rc = parse(text, bytes - SUM_LINE, set, m);
    free(text);
    if (rc == FTKIT_OK && (m->set != set || strcmp(m->context, context) != 0))
        rc = ftk_fail(FTKIT_ERR_FORMAT,
            "set %" PRIu64 " of '%s': the manifest is of set %" PRIu64 " of '%s'", set, context,
            m->set, m->context);
    if (rc != FTKIT_OK)
        ftk_manifest_free(m);
    return rc;
}

/* ---- ranks and parts ----------------------------------------------------------------- */

uint32_t *ftk_manifest_ranks(const struct ftk_manifest *m)
{
    uint32_t *ranks = malloc(m->nranks * sizeof *ranks);
    size_t *next = calloc((size_t)m->nparts + 1, sizeof *next);
    for (uint32_t i = 0; ranks && next && i < m->nparts; i++)
        next[i + 1] = next[i] + m->parts[i].nranks;
    for (uint32_t r = 0; ranks && next && r < m->nranks; r++)
        ranks[next[m->part_of[r]]++] = r;
    if (!next) {
        free(ranks);
        ranks = NULL;
    }
    free(next);
    return ranks;
}

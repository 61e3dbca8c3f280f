/* Comparing results of two runs: byte by byte, or the numbers of text files and .npy files within
 * a tolerance.  Two numbers a and b are within the tolerance X if
 *
 *     |a - b| <= X * max(1, |a|, |b|)
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define NPY_MAGIC "\x93NUMPY"
#define SHOWN 60 /* bytes of a line in a message */

struct text {
    char *at; /* [n + 1], ends in a NUL that is not in the file */
    size_t n;
};

/* False: *t is empty, and why says why. */
static bool load(
    const char *path, const char *name, const char *of, struct text *t, char why[FTK_WHY_MAX])
{
    FILE *f = fopen(path, "re");
    size_t room = 0, got = 1;
    *t = (struct text){ 0 };
    while (f && got > 0) {
        if (t->n + 1 >= room) {
            size_t more = room ? 2 * room : 65536;
            char *p = realloc(t->at, more);
            if (!p)
                break;
            t->at = p;
            room = more;
        }
        got = fread(t->at + t->n, 1, room - 1 - t->n, f);
        t->n += got;
    }
    bool bad = !f || got > 0 || ferror(f);
    if (bad)
        snprintf(why, FTK_WHY_MAX, "%s of %s cannot be read: %s", name, of,
            strerror(got > 0 && f ? ENOMEM : errno));
    if (f && fclose(f) != 0)
        bad = true;
    if (bad) {
        free(t->at);
        *t = (struct text){ 0 };
        return false;
    }
    t->at[t->n] = '\0';
    return true;
}

static bool is_binary(const struct text *t)
{
    return memchr(t->at, '\0', t->n) != NULL;
}

static bool is_near(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b) /* also infinities */
        return true;
    return tolerance >= 0 && fabs(a - b) <= tolerance * fmax(1, fmax(fabs(a), fabs(b)));
}

/* ---- text ---------------------------------------------------------------------------- */

static const char *line_at(const struct text *t, size_t at, int *len)
{
    while (at > 0 && t->at[at - 1] != '\n')
        at--;
    size_t n = strcspn(t->at + at, "\n");
    *len = n < SHOWN ? (int)n : SHOWN;
    return t->at + at;
}

/* The texts differ at a[i] and b[j]. */
static void report_line(const char *name, const struct text *a, size_t i, const struct text *b,
    size_t j, char why[FTK_WHY_MAX])
{
    int alen, blen;
    size_t line = 1;
    for (size_t k = 0; k < i; k++)
        line += a->at[k] == '\n';
    const char *aline = line_at(a, i, &alen), *bline = line_at(b, j, &blen);
    snprintf(why, FTK_WHY_MAX, "%s differs in line %zu: '%.*s' undisturbed, '%.*s' here", name,
        line, alen, aline, blen, bline);
}

/* Whether a number begins at t[i]. */
static bool has_number(const struct text *t, size_t i)
{
    const char *p = t->at + i;
    if (i > 0 && (isalnum((unsigned char)p[-1]) || p[-1] == '_' || p[-1] == '.'))
        return false;
    p += *p == '-' || *p == '+';
    p += *p == '.';
    return isdigit((unsigned char)*p);
}

static size_t skip_blanks(const struct text *t, size_t i)
{
    while (t->at[i] == ' ' || t->at[i] == '\t' || t->at[i] == '\r')
        i++;
    return i;
}

/* Compare texts; blanks count only as separators. */
static int compare_numbers(const struct text *a, const struct text *b, const char *name,
    double tolerance, char why[FTK_WHY_MAX])
{
    size_t i = 0, j = 0;
    for (;;) {
        size_t p = skip_blanks(a, i), q = skip_blanks(b, j);
        bool apart = (p > i) != (q > j);
        bool edge = a->at[p] == '\n' || a->at[p] == '\0' || p == 0 || a->at[p - 1] == '\n';
        i = p;
        j = q;
        if (has_number(a, i) && has_number(b, j)) {
            char *aend, *bend;
            double x = strtod(a->at + i, &aend), y = strtod(b->at + j, &bend);
            if (!is_near(x, y, tolerance))
                break;
            i = (size_t)(aend - a->at);
            j = (size_t)(bend - b->at);
            continue;
        }
        if (a->at[i] != b->at[j] || (apart && !edge))
            break;
        if (i >= a->n)
            return 0;
        i++;
        j++;
    }
    report_line(name, a, i, b, j, why);
    return 1;
}

static int compare_bytes(
    const struct text *a, const struct text *b, const char *name, char why[FTK_WHY_MAX])
{
    size_t i = 0, n = a->n < b->n ? a->n : b->n;
    if (a->n == b->n && memcmp(a->at, b->at, n) == 0)
        return 0;
    while (i < n && a->at[i] == b->at[i])
        i++;
    if (!is_binary(a) && !is_binary(b))
        report_line(name, a, i, b, i, why);
    else if (i < n)
        snprintf(why, FTK_WHY_MAX, "%s differs, first in byte %zu of %zu", name, i, a->n);
    else
        snprintf(why, FTK_WHY_MAX, "%s has %zu bytes undisturbed, and %zu here", name, a->n, b->n);
    return 1;
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Cut a text into its lines, sorted. */
static char **lines_of(const struct text *t, size_t *n)
{
    size_t room = 0;
    char **v = NULL;
    *n = 0;
    for (char *p = t->at, *end; *p; p = end) {
        end = p + strcspn(p, "\n");
        if (*end)
            *end++ = '\0';
        v = ftk_tool_grow(v, *n, &room, sizeof *v);
        v[(*n)++] = p;
    }
    if (v)
        qsort(v, *n, sizeof *v, by_line);
    return v;
}

/* The first of v that is not among w; NULL: none. */
static const char *missing(char **v, size_t n, char **w, size_t m)
{
    for (size_t i = 0; i < n; i++)
        if (m == 0 || !bsearch(&v[i], w, m, sizeof *w, by_line))
            return v[i];
    return NULL;
}

int ftk_compare_lines(const char *a, const char *b, const char *name, char why[FTK_WHY_MAX])
{
    struct text x, y = { 0 };
    size_t n = 0, m = 0;
    int rc = 1;
    if (load(a, name, "the undisturbed run", &x, why) && load(b, name, "this run", &y, why)) {
        char **v = lines_of(&x, &n), **w = lines_of(&y, &m);
        const char *lost = missing(v, n, w, m), *more = missing(w, m, v, n);
        if (lost)
            snprintf(why, FTK_WHY_MAX, "%s has no line '%.*s' here", name, SHOWN, lost);
        else if (more)
            snprintf(why, FTK_WHY_MAX, "%s has a line '%.*s' only here", name, SHOWN, more);
        rc = lost || more;
        free(v);
        free(w);
    }
    free(x.at);
    free(y.at);
    return rc;
}

/* ---- .npy ---------------------------------------------------------------------------- */

struct npy {
    size_t start, item, n; /* of the data; bytes of a number; numbers */
    char kind;             /* f, i, u; others are compared as bytes */
    size_t dims[FTKIT_DIMS_MAX + 1];
    int ndims;
};

/* Read the head of a file of format version 1 or 2.  False: it is none, or of another byte
 * order. */
static bool read_head(const struct text *t, struct npy *y)
{
    const unsigned char *u = (const unsigned char *)t->at;
    char type = 0;
    unsigned size = 0;
    *y = (struct npy){ 0 };
    if (t->n < 12 || memcmp(t->at, NPY_MAGIC, 6) != 0)
        return false;
    size_t len = u[8] | (size_t)u[9] << 8;
    y->start = 10 + len;
    if (u[6] > 1) {
        len |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
        y->start = 12 + len;
    }
    if (y->start > t->n)
        return false;
    char *head = strndup(t->at + (y->start - len), len);
    const char *descr = head ? strstr(head, "'descr': '") : NULL;
    const char *shape = head ? strstr(head, "'shape': (") : NULL;
    bool good = descr && shape && sscanf(descr + 10, "%*[<|]%c%u", &type, &size) == 2
                && strstr(head, "'fortran_order': False");
    for (shape = good ? shape + 10 : ""; isdigit((unsigned char)*shape);) {
        char *end;
        if (y->ndims > FTKIT_DIMS_MAX)
            break;
        y->dims[y->ndims++] = strtoul(shape, &end, 10);
        shape = end + strspn(end, ", ");
    }
    free(head);
    y->kind = type;
    if (type == 'c') /* two numbers */
        y->kind = 'f';
    y->item = type == 'c' ? size / 2 : size;
    y->n = y->item ? (t->n - y->start) / y->item : 0;
    return good && (y->kind == 'f' || y->kind == 'i' || y->kind == 'u');
}

static bool number_at(const struct text *t, const struct npy *y, size_t i, double *v)
{
    const char *p = t->at + y->start + i * y->item;
    union {
        float f;
        double d;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint64_t u64;
    } u = { .u64 = 0 };
    if (y->item > sizeof u)
        return false; /* long double: compared as bytes */
    memcpy(&u, p, y->item);
    if (y->kind == 'f' && y->item != sizeof(float) && y->item != sizeof(double))
        return false;
    if (y->kind == 'f')
        *v = y->item == sizeof(float) ? (double)u.f : u.d;
    else if (y->kind == 'u')
        *v = (double)u.u64;
    else
        *v = y->item == 1 ? u.i8 : y->item == 2 ? u.i16 : y->item == 4 ? u.i32 : (double)u.i64;
    return true;
}

/* "[3][17]" */
static void index_text(const struct npy *y, size_t i, char *text, size_t bytes)
{
    size_t at[FTKIT_DIMS_MAX + 1] = { 0 }, n = 0, all = 1;
    for (int d = 0; d < y->ndims; d++)
        all *= y->dims[d];
    i = y->n > 0 ? i * all / y->n : 0; /* a complex element is two numbers */
    for (int d = y->ndims - 1; d >= 0 && y->dims[d] > 0; d--) {
        at[d] = i % y->dims[d];
        i /= y->dims[d];
    }
    text[0] = '\0';
    for (int d = 0; d < y->ndims && n < bytes; d++)
        n += (size_t)snprintf(text + n, bytes - n, "[%zu]", at[d]);
}

static int compare_npy(const struct text *a, const struct text *b, const struct npy *y,
    const char *name, double tolerance, char why[FTK_WHY_MAX])
{
    size_t bad = 0, first = 0;
    double x, z, worst = 0;
    for (size_t i = 0; i < y->n; i++) {
        const char *p = a->at + y->start + i * y->item, *q = b->at + y->start + i * y->item;
        if (memcmp(p, q, y->item) == 0)
            continue;
        bool known = number_at(a, y, i, &x) && number_at(b, y, i, &z);
        if (known && tolerance >= 0 && is_near(x, z, tolerance))
            continue;
        first = bad++ == 0 ? i : first;
        worst = known && fabs(x - z) > worst ? fabs(x - z) : worst;
    }
    if (bad == 0)
        return 0;
    char at[24 * (FTKIT_DIMS_MAX + 1)];
    index_text(y, first, at, sizeof at);
    int n = snprintf(
        why, FTK_WHY_MAX, "%s differs in %zu of %zu numbers, first at %s", name, bad, y->n, at);
    if (n > 0 && n < FTK_WHY_MAX && number_at(a, y, first, &x) && number_at(b, y, first, &z))
        snprintf(why + n, (size_t)(FTK_WHY_MAX - n),
            ": %.17g undisturbed, %.17g here; the largest difference is %.3g", x, z, worst);
    return 1;
}

/* ---- files --------------------------------------------------------------------------- */

int ftk_compare_files(
    const char *a, const char *b, const char *name, double tolerance, char why[FTK_WHY_MAX])
{
    struct text x, y = { 0 };
    struct npy v, w;
    int rc = 1;
    if (load(a, name, "the undisturbed run", &x, why) && load(b, name, "this run", &y, why)) {
        if (read_head(&x, &v) && read_head(&y, &w) && x.n == y.n
            && memcmp(x.at, y.at, v.start) == 0)
            rc = compare_npy(&x, &y, &v, name, tolerance, why);
        else if (tolerance >= 0 && !is_binary(&x) && !is_binary(&y))
            rc = compare_numbers(&x, &y, name, tolerance, why);
        else
            rc = compare_bytes(&x, &y, name, why);
    }
    free(x.at);
    free(y.at);
    return rc;
}

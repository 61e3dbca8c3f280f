/* A sparse matrix in compressed rows, from a Matrix Market file or the Laplacian of a
 * cube.  Each rank reads the whole file and keeps its rows: no messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Source: Boisvert, Pozo, Remington: The Matrix Market Exchange Formats, NISTIR 5935. */
#ifndef EXAMPLE_MATRIX_H
#define EXAMPLE_MATRIX_H

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MATRIX_ROWS_MAX (INT_MAX - 1024)

struct matrix {
    int n;            /* order of the whole matrix */
    int first, count; /* rows kept here */
    size_t *start;    /* [count + 1]: where a row begins in col and value */
    int *col;
    double *value;
    double *diagonal; /* [n]: of all rows */
    char error[4200]; /* why reading failed */
};

struct entry {
    int row, col;
    double value;
};

struct reader {
    FILE *file;
    const char *path;
    long long line;
    char *text; /* the current line */
    size_t space;
    char *error;
};

static inline int matrix_no_memory(struct matrix *a, int rows)
{
    snprintf(a->error, sizeof a->error, "out of memory for %d rows", rows);
    return -1;
}

static inline int matrix_fail(struct reader *in, const char *format, ...)
{
    va_list args;
    int at = snprintf(in->error, 4160, "%.4000s:%lld: ", in->path, in->line);
    va_start(args, format);
    vsnprintf(in->error + at, (size_t)(4200 - at), format, args);
    va_end(args);
    return -1;
}

/* The next line that is neither empty nor a comment: 1, 0 at the end, -1 with an error.
 */
static inline int matrix_next_line(struct reader *in)
{
    ssize_t len;
    while ((len = getline(&in->text, &in->space, in->file)) >= 0) {
        in->line++;
        if (strlen(in->text) != (size_t)len)
            return matrix_fail(in, "not a text file");
        if (in->line > 1 && in->text[0] == '%')
            continue;
        if (in->text[strspn(in->text, " \t\r\n")] != '\0')
            return 1;
    }
    return feof(in->file) ? 0 : matrix_fail(in, "%s", strerror(errno));
}

/* Read an integer of [low, high] at *s and step over it. */
static inline int matrix_take_integer(const char **s, long long low, long long high, long long *v)
{
    char *end;
    errno = 0;
    *v = strtoll(*s, &end, 10);
    if (end == *s || errno != 0 || *v < low || *v > high)
        return -1;
    *s = end;
    return 0;
}

static inline int matrix_at_end(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '\0';
}

/* Read the first line and the sizes.  Sizes that contradict the length of the file are errors,
 * because memory is allocated by these numbers. */
static inline int matrix_read_header(struct reader *in, int *n, long long *entries, int *symmetric)
{
    char word[5][64];
    struct stat st;
    long long rows, cols;
    if (fstat(fileno(in->file), &st) != 0)
        return matrix_fail(in, "%s", strerror(errno));
    int rc = matrix_next_line(in);
    if (rc <= 0)
        return rc < 0 ? -1 : matrix_fail(in, "the file is empty");
    if (sscanf(in->text, "%63s %63s %63s %63s %63s", word[0], word[1], word[2], word[3], word[4])
            != 5
        || strcasecmp(word[0], "%%MatrixMarket") != 0)
        return matrix_fail(in, "not a Matrix Market file");
    if (strcasecmp(word[1], "matrix") != 0 || strcasecmp(word[2], "coordinate") != 0)
        return matrix_fail(in, "%s %s: need matrix coordinate", word[1], word[2]);
    if (strcasecmp(word[3], "real") != 0 && strcasecmp(word[3], "integer") != 0)
        return matrix_fail(in, "%s values: need real or integer", word[3]);
    *symmetric = strcasecmp(word[4], "symmetric") == 0;
    if (!*symmetric && strcasecmp(word[4], "general") != 0)
        return matrix_fail(in, "%s: need symmetric or general", word[4]);

    if ((rc = matrix_next_line(in)) <= 0)
        return rc < 0 ? -1 : matrix_fail(in, "the line with the sizes is missing");
    const char *s = in->text;
    if (matrix_take_integer(&s, 1, MATRIX_ROWS_MAX, &rows) != 0
        || matrix_take_integer(&s, 1, MATRIX_ROWS_MAX, &cols) != 0
        || matrix_take_integer(&s, 0, LLONG_MAX / 8, entries) != 0 || !matrix_at_end(s))
        return matrix_fail(
            in, "need three sizes: rows, columns (1 .. %d) and entries", MATRIX_ROWS_MAX);
    if (rows != cols)
        return matrix_fail(in, "%lld x %lld: the matrix is not square", rows, cols);
    if (*entries < rows)
        return matrix_fail(
            in, "%lld entries cannot fill the diagonal of %lld rows", *entries, rows);
    if (*entries > st.st_size / 5) /* "1 1 1" is the shortest */
        return matrix_fail(
            in, "%lld entries cannot be in a file of %lld bytes", *entries, (long long)st.st_size);
    *n = (int)rows;
    return 0;
}

/* Keep an entry if it is in one of this rank's rows. */
static inline int matrix_keep(struct matrix *a, struct entry **list, size_t *used, size_t *space,
    long long row, long long col, double value)
{
    if (row < a->first || row >= (long long)a->first + a->count)
        return 0;
    if (*used == *space) {
        size_t more = *space * 2 + 1024;
        struct entry *p = realloc(*list, more * sizeof *p);
        if (p == NULL)
            return -1;
        *list = p;
        *space = more;
    }
    (*list)[(*used)++] = (struct entry){ (int)row - a->first, (int)col, value };
    return 0;
}

/* Convert the list to compressed rows; entries of a row keep the order of the list. */
static inline int matrix_compress(struct matrix *a, const struct entry *list, size_t used)
{
    a->start = calloc((size_t)a->count + 2, sizeof *a->start);
    a->col = malloc((used + 1) * sizeof *a->col);
    a->value = malloc((used + 1) * sizeof *a->value);
    if (a->start == NULL || a->col == NULL || a->value == NULL)
        return -1;
    for (size_t k = 0; k < used; k++)
        a->start[list[k].row + 2]++;
    for (int i = 0; i < a->count; i++)
        a->start[i + 2] += a->start[i + 1];
    for (size_t k = 0; k < used; k++) {
        size_t at = a->start[list[k].row + 1]++;
        a->col[at] = list[k].col;
        a->value[at] = list[k].value;
    }
    return 0;
}

static inline void matrix_free(struct matrix *a)
{
    free(a->start);
    free(a->col);
    free(a->value);
    free(a->diagonal);
    a->start = NULL;
    a->col = NULL;
    a->value = a->diagonal = NULL;
}

static inline int matrix_read_entries(struct reader *in, struct matrix *a, long long entries,
    int symmetric, struct entry **list, size_t *used)
{
    size_t space = 0;
    long long i, j;
    int rc;
    for (long long k = 0; k < entries; k++) {
        if ((rc = matrix_next_line(in)) <= 0)
            return rc < 0 ? -1
                          : matrix_fail(in, "the file ends after %lld of %lld entries", k, entries);
        const char *s = in->text;
        if (matrix_take_integer(&s, 1, a->n, &i) != 0 || matrix_take_integer(&s, 1, a->n, &j) != 0)
            return matrix_fail(in, "need row and column of 1 .. %d", a->n);
        char *end;
        double v = strtod(s, &end);
        if (end == s || !matrix_at_end(end) || !isfinite(v))
            return matrix_fail(in, "need a finite number after row and column, and no more");
        if (symmetric && j > i)
            return matrix_fail(in, "entry above the diagonal of a symmetric matrix");
        if (i == j)
            a->diagonal[i - 1] += v;
        if (matrix_keep(a, list, used, &space, i - 1, j - 1, v) != 0
            || (symmetric && i != j && matrix_keep(a, list, used, &space, j - 1, i - 1, v) != 0))
            return matrix_fail(in, "out of memory");
    }
    if ((rc = matrix_next_line(in)) != 0)
        return rc < 0 ? -1 : matrix_fail(in, "more than the %lld entries announced", entries);
    for (i = 0; i < a->n; i++)
        if (!(a->diagonal[i] > 0))
            return matrix_fail(
                in, "no positive diagonal in row %lld: not positive definite", i + 1);
    return 0;
}

/* Check the whole file and keep the rows [first, first + count); count = 0 only checks.
 * On failure a->error has a line for the user. */
static inline int matrix_read(struct matrix *a, const char *path, int first, int count)
{
    struct reader in = { .path = path, .error = a->error };
    struct entry *list = NULL;
    struct stat st;
    size_t used = 0;
    long long entries = 0;
    int symmetric = 0, rc = -1;

    a->first = first;
    a->count = count;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        snprintf(a->error, sizeof a->error, "%.4000s: not a regular file", path);
        return -1;
    }
    if ((in.file = fopen(path, "r")) == NULL) {
        snprintf(a->error, sizeof a->error, "%.4000s: %s", path, strerror(errno));
        return -1;
    }
    if (matrix_read_header(&in, &a->n, &entries, &symmetric) == 0) {
        a->diagonal = calloc((size_t)a->n, sizeof *a->diagonal);
        rc = a->diagonal == NULL ? matrix_fail(&in, "out of memory for %d rows", a->n)
                                 : matrix_read_entries(&in, a, entries, symmetric, &list, &used);
    }
    if (rc == 0 && matrix_compress(a, list, used) != 0)
        rc = matrix_fail(&in, "out of memory for %zu entries", used);
    free(list);
    free(in.text);
    fclose(in.file);
    return rc;
}

/* The rows [first, first + count) of the 7-point Laplacian on a cube of side^3 points. */
static inline int matrix_poisson(struct matrix *a, int side, int first, int count)
{
    long long reach[3] = { (long long)side * side, side, 1 };
    struct entry *list = NULL;
    size_t used = 0, space = 0;
    int rc = 0;

    a->n = side * side * side;
    a->first = first;
    a->count = count;
    a->diagonal = malloc((size_t)a->n * sizeof *a->diagonal);
    if (a->diagonal == NULL)
        rc = -1;
    for (int i = 0; rc == 0 && i < a->n; i++)
        a->diagonal[i] = 6;
    for (long long i = first; rc == 0 && i < (long long)first + count; i++) {
        rc = matrix_keep(a, &list, &used, &space, i, i, 6);
        for (int d = 0; rc == 0 && d < 3; d++) {
            long long at = i / reach[d] % side;
            if (at > 0)
                rc = matrix_keep(a, &list, &used, &space, i, i - reach[d], -1);
            if (rc == 0 && at < side - 1)
                rc = matrix_keep(a, &list, &used, &space, i, i + reach[d], -1);
        }
    }
    if (rc == 0)
        rc = matrix_compress(a, list, used);
    free(list);
    return rc == 0 ? 0 : matrix_no_memory(a, count);
}

#endif

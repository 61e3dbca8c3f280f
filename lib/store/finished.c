/* The mark of a run that has finished (see finished.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "file.h"
#include "finished.h"

#define CHUNK (1u << 20)

/* ---- the arguments of a start -------------------------------------------------------- */

/* An argument, and the directory of its program. */
struct word {
    const char *text, *directory;
    int program;
};

/* Their number and the hash of all; -1: not known. */
static int count(const struct ftk_finished_start *s, uint64_t *sum)
{
    int n = 0;
    *sum = s->text ? ftk_xxh3(s->text, s->bytes) : 0;
    for (size_t at = 0; s->text && at < s->bytes; at++)
        n += s->text[at] == '\0';
    return s->text ? n : -1;
}

/* Go to the next argument; w->text NULL: to the first one.  Only while there is one. */
static void next(const struct ftk_finished_start *s, struct word *w)
{
    if (!w->text)
        *w = (struct word){ s->text, s->directories, 0 };
    else
        w->text += strlen(w->text) + 1;
    if (strncmp(w->text, FTK_FINISHED_PROGRAM, sizeof FTK_FINISHED_PROGRAM - 1) == 0
        && w->program + 1 < s->nprograms) {
        w->directory += strlen(w->directory) + 1;
        w->program++;
    }
}

/* ---- argument files ------------------------------------------------------------------ */

/* Open the file that the argument names, as FILE or as NAME=FILE; -1: there is no such file. */
static int open_file(const struct word *w, struct stat *st)
{
    char path[2 * FTK_PATH_MAX];
    const char *here = w->directory;
    for (const char *name = w->text; name && *name;) {
        const bool absolute = *name == '/';
        int n = snprintf(path, sizeof path, "%s%s%s", absolute ? "" : here,
            absolute || !here[0] ? "" : "/", name);
        /* stat() first: to open a device may have an effect */
        if (n > 0 && (size_t)n < sizeof path && stat(path, st) == 0 && S_ISREG(st->st_mode))
            return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        const char *equals = name == w->text ? strchr(name, '=') : NULL;
        name = equals ? equals + 1 : NULL;
    }
    errno = ENOENT;
    return -1;
}

/* The bytes of each of n argument files that are compared.  The share of a file does not depend on
 * what the other arguments name: outputs come and go. */
static size_t share_of(int n)
{
    return FTK_FINISHED_CONTENT / (size_t)(n < FTK_FINISHED_ARGUMENTS ? n : FTK_FINISHED_ARGUMENTS);
}

/* Fill the chunk from the file: the number of bytes, less than wanted only at the end; -1: it
 * cannot be read. */
static ssize_t read_chunk(int fd, char *chunk, size_t wanted)
{
    size_t have = 0;
    ssize_t n = 1;
    while (have < wanted && n != 0) {
        n = read(fd, chunk + have, wanted - have);
        if (n < 0 && errno != EINTR)
            return -1;
        have += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)have;
}

/* Hash of the first bytes, at most `share`; false: the file cannot be read. */
static bool hash_content(int fd, size_t share, uint64_t *content)
{
    char *chunk = malloc(CHUNK);
    ssize_t n = chunk ? 1 : -1;
    *content = 0;
    for (size_t left = share; n > 0 && left > 0; left -= n > 0 ? (size_t)n : 0) {
        n = read_chunk(fd, chunk, left < CHUNK ? left : CHUNK);
        if (n > 0)
            *content = ftk_xxh3_seed(chunk, (size_t)n, *content);
    }
    free(chunk);
    return n >= 0;
}

static void fill(struct ftk_finished_argument *a, const struct word *w, size_t share)
{
    struct stat st;
    *a = (struct ftk_finished_argument){ .sum = ftk_xxh3(w->text, strlen(w->text)),
        .bytes = FTK_FINISHED_NO_FILE };
    snprintf(a->text, sizeof a->text, "%s", w->text);
    for (char *p = a->text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    int fd = open_file(w, &st);
    if (fd < 0)
        return;
    if (hash_content(fd, share, &a->content))
        a->bytes = st.st_size;
    close(fd);
}

void ftk_finished_here(struct ftk_finished *f, const struct ftk_finished_start *s)
{
    struct word w = { NULL, NULL, 0 };
    f->n = count(s, &f->sum);
    for (int i = 0; i < f->n && i < FTK_FINISHED_ARGUMENTS; i++) {
        next(s, &w);
        fill(&f->argument[i], &w, share_of(f->n));
    }
}

/* ---- comparing ----------------------------------------------------------------------- */

static bool other_file(const struct ftk_finished_argument *was, const struct word *w, size_t share,
    char *why, size_t bytes)
{
    struct stat st;
    uint64_t content = 0;
    if (was->bytes < 0)
        return false;
    int fd = open_file(w, &st);
    if (fd < 0)
        return false; /* an output that was moved; the program itself misses an input */
    bool other = st.st_size != was->bytes;
    if (other)
        snprintf(why, bytes, "the file of argument '%s' had %" PRId64 " bytes, and has %" PRId64,
            was->text, was->bytes, (int64_t)st.st_size);
    else if (hash_content(fd, share, &content) && content != was->content) {
        other = true;
        snprintf(why, bytes, "the file of argument '%s' has other contents", was->text);
    }
    close(fd);
    return other;
}

/* The arguments differ: say where. */
static void say_argument(const struct ftk_finished *f, const struct ftk_finished_start *s, int n,
    char *why, size_t bytes)
{
    struct word w = { NULL, NULL, 0 };
    for (int i = 0; i < f->n && i < n && i < FTK_FINISHED_ARGUMENTS; i++) {
        next(s, &w);
        if (f->argument[i].sum != ftk_xxh3(w.text, strlen(w.text))) {
            snprintf(why, bytes, "argument %d was '%s', and is '%.80s'", i + 1, f->argument[i].text,
                w.text);
            return;
        }
    }
    if (f->n != n)
        snprintf(
            why, bytes, "the program had %d argument%s, and has %d", f->n, f->n == 1 ? "" : "s", n);
    else
        snprintf(why, bytes, "an argument behind the first %d differs", FTK_FINISHED_ARGUMENTS);
}

bool ftk_finished_differs(
    const struct ftk_finished *f, const struct ftk_finished_start *s, char *why, size_t bytes)
{
    uint64_t sum;
    const int n = count(s, &sum);
    struct word w = { NULL, NULL, 0 };
    if (f->n < 0 || n < 0)
        return false; /* not known */
    if (f->n != n || f->sum != sum) {
        say_argument(f, s, n, why, bytes);
        return true;
    }
    for (int i = 0; i < n && i < FTK_FINISHED_ARGUMENTS; i++) {
        next(s, &w);
        if (other_file(&f->argument[i], &w, share_of(n), why, bytes))
            return true;
    }
    return false;
}

void ftk_finished_changed(struct ftk_finished *f, const struct ftk_finished_start *s, bool known)
{
    struct word w = { NULL, NULL, 0 };
    char why[256];
    for (int i = 0; i < f->n && i < FTK_FINISHED_ARGUMENTS; i++) {
        struct ftk_finished_argument *a = &f->argument[i];
        next(s, &w);
        if (a->bytes >= 0 && (!known || other_file(a, &w, share_of(f->n), why, sizeof why))) {
            a->bytes = FTK_FINISHED_CHANGED;
            a->content = 0;
        }
    }
}

const char *ftk_finished_unsure(const struct ftk_finished *f)
{
    for (int i = 0; i < f->n && i < FTK_FINISHED_ARGUMENTS; i++)
        if (f->argument[i].bytes == FTK_FINISHED_CHANGED)
            return f->argument[i].text;
    return NULL;
}

/* ---- the text ------------------------------------------------------------------------ */

static size_t format(const struct ftk_finished *f, char text[FTK_FINISHED_TEXT])
{
    size_t n = (size_t)snprintf(text, FTK_FINISHED_TEXT,
        "ftkit.finished = 1\nrun = %016" PRIx64 "\nby = %016" PRIx64 "\ndurable = %" PRIu64
        "\ncommitted = %" PRIu64 "\narguments = %d %016" PRIx64 "\n",
        f->run, f->by, f->durable, f->committed, f->n, f->sum);
    for (int i = 0; i < f->n && i < FTK_FINISHED_ARGUMENTS; i++)
        n += (size_t)snprintf(text + n, FTK_FINISHED_TEXT - n,
            "argument = %016" PRIx64 " %" PRId64 " %016" PRIx64 " %s\n", f->argument[i].sum,
            f->argument[i].bytes, f->argument[i].content, f->argument[i].text);
    const uint64_t sum = ftk_xxh3(text, n);
    return n
           + (size_t)snprintf(text + n, FTK_FINISHED_TEXT - n, "checksum = %016" PRIx64 "\n", sum);
}

/* Each mark has exactly one spelling, as the record of an owner.  False: text is no mark. */
static bool parse(const char *text, struct ftk_finished *f)
{
    char *again;
    int at = 0;
    memset(f, 0, sizeof *f);
    int n = sscanf(text,
        "ftkit.finished = 1\nrun = %16" SCNx64 "\nby = %16" SCNx64 "\ndurable = %20" SCNu64
        "\ncommitted = %20" SCNu64 "\narguments = %10d %16" SCNx64 "\n%n",
        &f->run, &f->by, &f->durable, &f->committed, &f->n, &f->sum, &at);
    if (n != 6 || at == 0 || f->n < -1)
        return false;
    for (int i = 0; i < f->n && i < FTK_FINISHED_ARGUMENTS; i++) {
        struct ftk_finished_argument *a = &f->argument[i];
        int next_at = 0;
        if (sscanf(text + at, "argument = %16" SCNx64 " %20" SCNd64 " %16" SCNx64 "%n", &a->sum,
                &a->bytes, &a->content, &next_at)
                != 3
            || next_at == 0 || text[at + next_at] != ' ')
            return false;
        at += next_at + 1;
        const size_t len =
            strcspn(text + at, "\n"); /* the text may be empty, or begin with blanks */
        if (len >= sizeof a->text || text[at + (int)len] == '\0')
            return false;
        memcpy(a->text, text + at, len);
        at += (int)len + 1;
    }
    again = malloc(FTK_FINISHED_TEXT);
    const bool same = again && format(f, again) == strlen(text) && strcmp(text, again) == 0;
    free(again);
    return same;
}

/* ---- the file ------------------------------------------------------------------------ */

static void path_of(const char *dir, const char *context, char path[2 * FTK_PATH_MAX])
{
    snprintf(path, (size_t)2 * FTK_PATH_MAX, "%s/%s.ftkit/" FTK_FINISHED_FILE, dir, context);
}

int ftk_finished_write(const char *dir, const char *context, const struct ftk_finished *f)
{
    char path[2 * FTK_PATH_MAX], *text = malloc(FTK_FINISHED_TEXT);
    if (!text)
        return ftk_fail(FTKIT_ERR_NOMEM, "the mark of a finished run");
    path_of(dir, context, path);
    int rc = ftk_save_text(path, text, format(f, text));
    free(text);
    return rc;
}

int ftk_finished_remove(const char *dir, const char *context)
{
    char path[2 * FTK_PATH_MAX];
    path_of(dir, context, path);
    return unlink(path) == 0 || errno == ENOENT ? FTKIT_OK : ftk_fail_errno(errno, "%s", path);
}

int ftk_finished_read(const char *dir, const char *context, struct ftk_finished *f)
{
    char path[2 * FTK_PATH_MAX], *text = malloc(FTK_FINISHED_TEXT);
    if (!text)
        return ftk_fail(FTKIT_ERR_NOMEM, "the mark of a finished run");
    path_of(dir, context, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, FTK_FINISHED_TEXT - 1) : -1;
    int rc = FTKIT_OK;
    if (n < 0 && errno == ENOENT)
        rc = FTKIT_ERR_NOT_FOUND;
    else if (n < 0)
        rc = ftk_fail_errno(errno, "%s", path);
    if (fd >= 0)
        close(fd); /* nothing was written */
    if (rc == FTKIT_OK) {
        text[n] = '\0';
        if (!parse(text, f))
            rc = ftk_fail(FTKIT_ERR_CORRUPT, "%s is damaged, or of another version", path);
    }
    free(text);
    return rc;
}

uint64_t ftk_finished_set(const char *dir, const char *context, uint64_t newest)
{
    struct ftk_finished *f = malloc(sizeof *f);
    uint64_t set = 0;
    if (f && ftk_finished_read(dir, context, f) == FTKIT_OK && newest <= f->committed)
        set = f->durable;
    free(f);
    return set;
}

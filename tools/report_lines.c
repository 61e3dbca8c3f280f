/* The lines of event logs: finding the files, and reading them with bounded memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

/* ---- files --------------------------------------------------------------------------- */

static int add_file(struct rp_log *log, const char *path, bool named)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        int err = errno;
        ftk_tool_say("%s: %s", ftk_tool_why(path), strerror(err));
        return TOOL_FAIL;
    }
    if (!S_ISREG(st.st_mode)) {
        ftk_tool_say("%s is not a regular file", ftk_tool_why(path));
        return named ? TOOL_FAIL : TOOL_OK;
    }
    for (size_t i = 0; i < log->nfiles; i++)
        if (log->files[i].dev == st.st_dev && log->files[i].ino == st.st_ino)
            return TOOL_OK; /* a file counts once */
    log->files = ftk_tool_grow(log->files, log->nfiles, &log->files_room, sizeof log->files[0]);
    struct rp_file f = { .path = strdup(path), .dev = st.st_dev, .ino = st.st_ino };
    if (!f.path) {
        ftk_tool_say("out of memory");
        return TOOL_FAIL;
    }
    f.named = named;
    log->files[log->nfiles++] = f;
    return TOOL_OK;
}

static int is_log(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 6 && d->d_name[0] != '.' && strcmp(d->d_name + n - 6, ".jsonl") == 0;
}

int ftk_rp_add_path(struct rp_log *log, const char *path)
{
    struct stat st;
    struct dirent **names = NULL;
    int code = TOOL_OK;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return add_file(log, path, true);
    int n = scandir(path, &names, is_log, alphasort);
    if (n < 0) {
        int err = errno;
        ftk_tool_say("%s: %s", ftk_tool_why(path), strerror(err));
        return TOOL_FAIL;
    }
    if (n == 0) {
        ftk_tool_say(
            "no event logs in %s: it has no file *.jsonl (see report.events)", ftk_tool_why(path));
        code = TOOL_USAGE;
    }
    for (int i = 0; i < n; i++) {
        char *file = NULL;
        if (code == TOOL_OK && asprintf(&file, "%s/%s", path, names[i]->d_name) > 0)
            code = add_file(log, file, false);
        free(file);
        free(names[i]);
    }
    free(names);
    return code;
}

/* ---- lines --------------------------------------------------------------------------- */

struct reader {
    int fd, file;
    char *buf;
    size_t n, room;
    bool skips; /* within a line that is too long */
};

static bool wanted(const char *const *needles, const char *line, size_t n)
{
    if (!needles)
        return true;
    for (; *needles; needles++)
        if (memmem(line, n, *needles, strlen(*needles)))
            return true;
    return false;
}

static void note_bad(struct rp_log *log, int file, const char *why)
{
    const struct rp_file *f = &log->files[file];
    if (log->bad++ == 0)
        snprintf(log->first_bad, sizeof log->first_bad, "%.100s:%llu: %s", f->path,
            (unsigned long long)f->lines, why);
}

static void one_line(struct rp_log *log, const struct reader *r, const char *line, size_t n,
    bool whole, const char *const *needles, bool counts, rp_line_fn *fn)
{
    struct rp_file *f = &log->files[r->file];
    if (n == 0)
        return;
    if (counts) {
        f->lines++;
        log->lines++;
    }
    bool good = !r->skips && wanted(needles, line, n) && fn(log, r->file, line, n, whole);
    if (!counts)
        return;
    f->good += good;
    if (!good)
        note_bad(log, r->file,
            r->skips ? "the line is too long"
            : !whole ? "the last line is not whole"
                     : "this is no event");
}

/* Give all whole lines in the buffer away, and move the rest to its front. */
static void cut_lines(
    struct rp_log *log, struct reader *r, const char *const *needles, bool counts, rp_line_fn *fn)
{
    size_t at = 0;
    char *end;
    while (at < r->n && (end = memchr(r->buf + at, '\n', r->n - at)) != NULL) {
        one_line(log, r, r->buf + at, (size_t)(end - r->buf) - at, true, needles, counts, fn);
        r->skips = false;
        at = (size_t)(end - r->buf) + 1;
    }
    memmove(r->buf, r->buf + at, r->n - at);
    r->n -= at;
}

static void make_room(struct reader *r)
{
    if (r->n < r->room)
        return;
    if (r->room >= RP_LINE_MAX) {
        r->skips = true;
        r->n = 1; /* so that the line is not empty */
        return;
    }
    size_t room = r->room ? 2 * r->room : 1u << 18;
    char *buf = ftk_tool_alloc(room);
    if (r->n)
        memcpy(buf, r->buf, r->n);
    free(r->buf);
    r->buf = buf;
    r->room = room;
}

static int read_file(
    struct rp_log *log, int file, const char *const *needles, bool counts, rp_line_fn *fn)
{
    const char *path = log->files[file].path;
    struct reader r = { .file = file, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
    ssize_t n = r.fd < 0 ? -1 : 1;
    while (n > 0) {
        make_room(&r);
        n = read(r.fd, r.buf + r.n, r.room - r.n);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0) {
            r.n += (size_t)n;
            cut_lines(log, &r, needles, counts, fn);
        }
    }
    int err = errno;
    if (n == 0)
        one_line(log, &r, r.buf, r.n, false, needles, counts, fn);
    free(r.buf);
    if (r.fd >= 0)
        (void)close(r.fd); /* read-only: no error to report */
    if (n == 0)
        return TOOL_OK;
    ftk_tool_say("%s: %s", ftk_tool_why(path), strerror(err));
    return TOOL_FAIL;
}

int ftk_rp_lines(struct rp_log *log, const char *const *needles, bool counts, rp_line_fn *fn)
{
    int code = TOOL_OK;
    for (size_t i = 0; code == TOOL_OK && i < log->nfiles; i++)
        code = read_file(log, (int)i, needles, counts, fn);
    return code;
}

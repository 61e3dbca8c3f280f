/* Lines and fields of a failure log, and the times in them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/config.h"
#include "failures.h"

extern char **environ;

/* ---- the file, or what xz makes of it ------------------------------------------------------ */

static bool packed(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".xz") == 0;
}

static int open_packed(struct ftk_failure_input *in)
{
    int out[2], rc;
    char xz[] = "xz", options[] = "-dc", end[] = "--";
    char *path = strdup(in->path);
    char *const command[] = { xz, options, end, path, NULL };
    posix_spawn_file_actions_t acts;
    if (!path || pipe2(out, O_CLOEXEC) != 0) {
        ftk_tool_say("%s: %s", in->path, strerror(errno));
        free(path);
        return TOOL_FAIL;
    }
    in->f = fdopen(out[0], "r");
    rc = in->f ? posix_spawn_file_actions_init(&acts) : errno;
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&acts, out[1], STDOUT_FILENO);
        if (rc == 0)
            rc = posix_spawnp(&in->xz, "xz", &acts, NULL, command, environ);
        (void)posix_spawn_file_actions_destroy(&acts);
    }
    free(path);
    (void)close(out[1]);
    if (rc == 0)
        return TOOL_OK;
    if (in->f)
        (void)fclose(in->f);
    else
        (void)close(out[0]);
    in->f = NULL;
    in->xz = 0;
    ftk_tool_say("%s: the program xz, which unpacks it, %s", in->path,
        rc == ENOENT ? "is missing" : ftk_tool_why(strerror(rc)));
    return TOOL_FAIL;
}

int ftk_failure_open(struct ftk_failure_input *in, const char *path)
{
    *in = (struct ftk_failure_input){ .path = path, .separator = ',' };
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "re");
    if (!f || (!standard && packed(path))) {
        if (!f)
            ftk_tool_say("%s: %s", path, strerror(errno));
        else
            (void)fclose(f);
        return f ? open_packed(in) : TOOL_FAIL;
    }
    in->f = f;
    return TOOL_OK;
}

int ftk_failure_close(struct ftk_failure_input *in, bool whole)
{
    int status = 0, code = TOOL_OK;
    if (in->f && in->f != stdin)
        (void)fclose(in->f); /* it was read; xz gets SIGPIPE if it is not done */
    if (in->xz > 0 && waitpid(in->xz, &status, 0) == in->xz && whole && status != 0) {
        ftk_tool_say("%s: xz cannot unpack it", in->path);
        code = TOOL_FAIL;
    }
    free(in->text);
    free(in->field);
    return code;
}

/* ---- fields -------------------------------------------------------------------------------- */

/* Take the quotes off a field of CSV; returns its end in the line, NULL: no quote ends it. */
static char *unquote(char *p)
{
    char *to = p, *from = p + 1;
    for (;; *to++ = *from++) {
        if (*from == '\0')
            return NULL;
        if (*from == '"' && *++from != '"')
            break;
    }
    *to = '\0';
    return from;
}

static int split(struct ftk_failure_input *in)
{
    char *p = in->text;
    for (in->n = 0;; p++) {
        in->field = ftk_tool_grow(in->field, in->n, &in->room, sizeof *in->field);
        p += strspn(p, " ");
        char *begin = p, *end;
        bool quoted = in->separator == ',' && *p == '"';
        end = quoted ? unquote(p) : p + strcspn(p, (char[]){ in->separator, '\0' });
        if (!end || (*end && *end != in->separator)) {
            ftk_tool_say("%s:%zu: column %zu: the quotes do not end with the field", in->path,
                in->line, in->n + 1);
            return -1;
        }
        bool last = *end == '\0';
        *end = '\0';
        for (char *tail = begin + strlen(begin); !quoted && tail > begin && tail[-1] == ' ';)
            *--tail = '\0';
        in->field[in->n++] = begin;
        p = end;
        if (last)
            return 1;
    }
}

int ftk_failure_line(struct ftk_failure_input *in)
{
    ssize_t len;
    while ((len = getline(&in->text, &in->text_bytes, in->f)) >= 0) {
        in->line++;
        if (strlen(in->text) != (size_t)len) {
            ftk_tool_say("%s:%zu: this is no text: a byte is 0", in->path, in->line);
            return -1;
        }
        in->text[strcspn(in->text, "\r\n")] = '\0';
        if (in->line == 1 && strchr(in->text, '|'))
            in->separator = '|';
        if (in->text[0] != '\0' && in->text[0] != '#')
            return split(in);
    }
    if (!ferror(in->f))
        return 0;
    ftk_tool_say("%s: %s", in->path, strerror(errno));
    return -1;
}

/* ---- times --------------------------------------------------------------------------------- */

/* Parse the front of text; the rest of it, NULL: this is no date. */
static const char *date(const char *text, const char *format, double *at_s)
{
    struct tm tm = { 0 };
    const char *rest = strptime(text, format, &tm);
    int day = tm.tm_mday;
    if (!rest)
        return NULL;
    time_t t = timegm(&tm);
    if (tm.tm_mday != day) /* the month has no such day */
        return NULL;
    *at_s = (double)t;
    return rest;
}

bool ftk_failure_date(const char *text, const char *format, double *at_s)
{
    double at = 0;
    const char *rest = date(text, format, &at);
    if (!rest || *rest)
        return false;
    *at_s = at;
    return true;
}

bool ftk_failure_iso(const char *text, double *at_s)
{
    double at = 0, part = 0;
    const char *rest = date(text, "%Y-%m-%dT%H:%M:%S", &at);
    if (!rest)
        rest = date(text, "%Y-%m-%d %H:%M:%S", &at);
    if (rest && *rest == '.') {
        char *end;
        part = strspn(rest + 1, "0123456789") > 0 ? strtod(rest, &end) : NAN;
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    if (!rest || (*rest && strcmp(rest, "Z") != 0) || isnan(part))
        return false;
    *at_s = at + part;
    return true;
}

bool ftk_failure_seconds(const char *text, double *s)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(fabs(v) <= 1e15) || text[strspn(text, "0123456789.eE+-")])
        return false;
    *s = v;
    return true;
}

bool ftk_failure_time(const char *text, double *s)
{
    double v;
    if (!ftk_failure_seconds(text, &v) && ftk_config_time(text, &v) != NULL)
        return false;
    if (v < 0)
        return false;
    *s = v;
    return true;
}

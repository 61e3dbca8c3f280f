/* Functions that the commands on directories of sets share: options, the choice of sets, texts of
 * numbers and dates.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "sets.h"

static const char *command = "";

void ftk_tool_name(const char *name)
{
    command = name;
}

void ftk_tool_say(const char *fmt, ...)
{
    va_list ap;
    fflush(stdout);
    fprintf(stderr, "ftkit %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

const char *ftk_tool_why(const char *detail)
{
    static char text[FTK_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", detail);
    for (char *p = text; *p; p++) /* names in foreign files may contain any byte */
        if (*p < ' ' || *p > '~')
            *p = '?';
    char *place = strrchr(text, '(');
    size_t n = strlen(text);
    if (place && place > text + 1 && strstr(place, ".c:") && text[n - 1] == ')')
        place[-1] = '\0';
    return text;
}

int ftk_tool_end(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    ftk_tool_say("cannot write: %s", strerror(errno));
    return TOOL_FAIL;
}

/* ---- options ------------------------------------------------------------------------- */

static const struct option options[] = {
    { "json", no_argument, NULL, OPT_JSON },
    { "context", required_argument, NULL, OPT_CONTEXT },
    { "rank", required_argument, NULL, OPT_RANK },
    { "format", required_argument, NULL, OPT_FORMAT },
    { "keep", required_argument, NULL, OPT_KEEP },
    { "incomplete", no_argument, NULL, OPT_INCOMPLETE },
    { "dry-run", no_argument, NULL, OPT_DRY_RUN },
    { "slots", no_argument, NULL, OPT_SLOTS },
    { "size", required_argument, NULL, OPT_SIZE },
    { "teams", required_argument, NULL, OPT_TEAMS },
    { "ranks-per-node", required_argument, NULL, OPT_PER_NODE },
    { "file", required_argument, NULL, OPT_FILE },
    { "run", required_argument, NULL, OPT_RUN },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int parse_count(const char *text, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || n < 0 || n > 1000000000) {
        ftk_tool_say("'%s' is not a number", ftk_tool_why(text));
        return TOOL_USAGE;
    }
    *out = (int)n;
    return 0;
}

static int take(int opt, struct ftk_opts *o)
{
    switch (opt) {
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_CONTEXT:
        o->context = optarg;
        return 0;
    case OPT_RANK:
        return parse_count(optarg, &o->rank);
    case OPT_OUTPUT:
        o->output = optarg;
        return 0;
    case OPT_FORMAT:
        o->format = optarg;
        return 0;
    case OPT_KEEP:
        return parse_count(optarg, &o->keep);
    case OPT_INCOMPLETE:
        o->incomplete = true;
        return 0;
    case OPT_SIZE:
        return parse_count(optarg, &o->size);
    case OPT_TEAMS:
        return parse_count(optarg, &o->teams);
    case OPT_PER_NODE:
        return parse_count(optarg, &o->per_node);
    case OPT_FILE:
        o->file = optarg;
        return 0;
    case OPT_RUN:
        o->run = optarg;
        return 0;
    case OPT_SLOTS:
        o->slots = true;
        return 0;
    default:
        o->dry_run = true;
        return 0;
    }
}

int ftk_opts_parse(int argc, char **argv, int allowed, void (*usage)(FILE *out), struct ftk_opts *o)
{
    int opt;
    *o = (struct ftk_opts){ .rank = -1, .keep = -1, .size = -1, .teams = -1, .per_node = -1 };
    ftk_tool_name(argv[0]);
    optind = 1;
    while ((opt = getopt_long(argc, argv, "ho:", options, NULL)) != -1) {
        if (opt == 'h') {
            usage(stdout);
            return ftk_tool_end(TOOL_OK) + 1;
        }
        if (opt == 'o')
            opt = OPT_OUTPUT;
        if (opt == '?' || !(opt & allowed)) {
            if (opt != '?')
                ftk_tool_say("this command has no such option");
            usage(stderr);
            return TOOL_USAGE + 1;
        }
        if (take(opt, o) != 0)
            return TOOL_USAGE + 1;
    }
    o->args = argv + optind;
    o->nargs = argc - optind;
    return 0;
}

/* ---- texts --------------------------------------------------------------------------- */

const char *ftk_state_name(int state)
{
    switch (state) {
    case FTK_H5_COMPLETE:
        return "complete";
    case FTK_H5_INCOMPLETE:
        return "incomplete";
    default:
        return "damaged";
    }
}

void ftk_time_text(int64_t s, char buf[32])
{
    time_t t = (time_t)s;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || tm.tm_year < 0 || tm.tm_year > 8099
        || strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(buf, 32, "?");
}

void ftk_bytes_text(uint64_t bytes, char buf[32])
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double v = (double)bytes;
    size_t i = 0;
    if (bytes < 1024) {
        snprintf(buf, 32, "%" PRIu64 " B", bytes);
        return;
    }
    for (v /= 1024; v >= 1024 && i + 1 < sizeof units / sizeof units[0]; i++)
        v /= 1024;
    snprintf(buf, 32, v < 10 ? "%.1f %s" : "%.0f %s", v, units[i]);
}

/* ---- choice of sets ------------------------------------------------------------------ */

/* Whether path is <dir>/<name>.ftkit; then path becomes <dir>, and context becomes <name>. */
static bool split(char *path, char context[FTKIT_NAME_MAX + 1])
{
    static const char suffix[] = ".ftkit";
    size_t n = strlen(path), tail = sizeof suffix - 1;
    char *slash = strrchr(path, '/');
    char *base = slash ? slash + 1 : path;
    size_t len = n - (size_t)(base - path);
    if (len <= tail || len - tail > FTKIT_NAME_MAX || strcmp(path + n - tail, suffix) != 0)
        return false;
    memcpy(context, base, len - tail);
    context[len - tail] = '\0';
    if (!slash)
        snprintf(path, FTK_PATH_MAX, ".");
    else
        slash[slash == path] = '\0';
    return true;
}

/* Whether path is the directory of a set, <name>.ftkit/set-...; then cut off /set-.... */
static bool split_set(char *path, uint64_t *set)
{
    char again[32];
    char *base = strrchr(path, '/');
    if (!base || strncmp(base, "/set-", 5) != 0)
        return false;
    *set = strtoull(base + 5, NULL, 10);
    snprintf(again, sizeof again, "/set-%010" PRIu64, *set);
    size_t n = (size_t)(base - path);
    if (*set == 0 || strcmp(base, again) != 0 || n < 6 || strncmp(base - 6, ".ftkit", 6) != 0)
        return false;
    *base = '\0';
    return true;
}

/* Resolve links and dots in w->dir.  true: the result is the directory of a context or of a set;
 * then w->dir becomes the directory of sets that contains it. */
static bool follow(struct ftk_where *w, char context[FTKIT_NAME_MAX + 1])
{
    char *real = realpath(w->dir, NULL);
    bool found = false;
    char path[FTK_PATH_MAX];
    if (real && strlen(real) < sizeof path) {
        strcpy(path, real);
        bool set = split_set(path, &w->set);
        found = split(path, context);
        w->set = set && found ? w->set : 0;
        if (found)
            memcpy(w->dir, path, sizeof path);
    }
    free(real);
    return found;
}

static int no_sets(struct ftk_where *w)
{
    ftk_tool_say("no sets in %s: it has no directory <context>.ftkit", w->dir);
    ftk_where_free(w);
    return TOOL_USAGE;
}

int ftk_where_find(const char *path, const char *only, struct ftk_where *w)
{
    char context[FTKIT_NAME_MAX + 1];
    struct stat st;
    memset(w, 0, sizeof *w);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof w->dir) {
        ftk_tool_say("%s", n ? "the path is too long" : "the path is empty");
        return TOOL_USAGE;
    }
    memcpy(w->dir, path, n);
    if (stat(w->dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        ftk_tool_say("%s: %s", w->dir, strerror(errno ? errno : ENOTDIR));
        return TOOL_FAIL;
    }
    bool one = follow(w, context);
    int rc = ftk_h5_contexts(w->dir, &w->contexts, &w->n);
    if (rc != FTKIT_OK) {
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    if (!only && one)
        only = context;
    for (size_t i = 0; only && i < w->n; i++)
        if (strcmp(w->contexts[i], only) == 0) {
            memmove(w->contexts[0], w->contexts[i], sizeof w->contexts[0]);
            w->n = 1;
            return 0;
        }
    if (only) {
        ftk_tool_say("no sets of '%s' in %s", ftk_tool_why(only), w->dir);
        ftk_where_free(w);
        return TOOL_FAIL;
    }
    return w->n > 0 ? 0 : no_sets(w);
}

int ftk_where_set(const struct ftk_where *w, struct ftk_opts *o, bool takes)
{
    static char number[24];
    static char *args[2];
    if (w->set == 0)
        return 0;
    if (!takes || o->nargs > 1) {
        ftk_tool_say("%s is a set's own directory: name %s", o->args[0], w->dir);
        return TOOL_USAGE;
    }
    snprintf(number, sizeof number, "%" PRIu64, w->set);
    args[0] = o->args[0];
    args[1] = number;
    o->args = args;
    o->nargs = 2;
    return 0;
}

void ftk_where_free(struct ftk_where *w)
{
    free(w->contexts);
    w->contexts = NULL;
    w->n = 0;
}

int ftk_where_single(const struct ftk_where *w)
{
    if (w->n == 1)
        return 0;
    ftk_tool_say("%s has sets of several contexts ('%s', '%s', ...): add --context NAME", w->dir,
        w->contexts[0], w->contexts[1]);
    return TOOL_USAGE;
}

int ftk_set_number(const char *text, uint64_t *set)
{
    char *end;
    const char *digits = strncmp(text, "set-", 4) == 0 ? text + 4 : text;
    *set = 0;
    if (strcmp(text, "newest") == 0)
        return 0;
    errno = 0;
    if (*digits >= '0' && *digits <= '9')
        *set = strtoull(digits, &end, 10);
    if (*set == 0 || errno != 0 || *end != '\0') {
        ftk_tool_say("'%s' is not the number of a set, nor newest", ftk_tool_why(text));
        return TOOL_USAGE;
    }
    return 0;
}

int ftk_set_newest(const char *dir, const char *context, uint64_t *set)
{
    uint64_t *sets = NULL;
    int n = 0;
    int rc = ftk_h5_list(dir, context, &sets, &n);
    if (rc == FTKIT_OK && n > 0)
        *set = sets[0];
    free(sets);
    if (rc != FTKIT_OK)
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    else if (n == 0)
        ftk_tool_say("no set of '%s' in %s is complete", context, dir);
    return rc == FTKIT_OK && n > 0 ? 0 : TOOL_FAIL;
}

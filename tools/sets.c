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
    ftk_progress_clear();
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
    ftk_progress_clear();
    bool failed = ferror(stdout); /* earlier: errno is no longer that of the write */
    if (fflush(stdout) != 0)
        ftk_tool_say("cannot write the output: %s", strerror(errno));
    else if (failed)
        ftk_tool_say("cannot write the output: it is incomplete");
    else
        return code;
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
    { "progress", no_argument, NULL, OPT_PROGRESS },
    { "wait", no_argument, NULL, OPT_WAIT },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int parse_count(const char *option, const char *text, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || n < 0 || n > 1000000000) {
        ftk_tool_say("%s: '%s' is not a number", option, ftk_tool_why(text));
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
        return parse_count("--rank", optarg, &o->rank);
    case OPT_OUTPUT:
        o->output = optarg;
        return 0;
    case OPT_FORMAT:
        o->format = optarg;
        return 0;
    case OPT_KEEP:
        return parse_count("--keep", optarg, &o->keep);
    case OPT_INCOMPLETE:
        o->incomplete = true;
        return 0;
    case OPT_SIZE:
        return parse_count("--size", optarg, &o->size);
    case OPT_TEAMS:
        return parse_count("--teams", optarg, &o->teams);
    case OPT_PER_NODE:
        return parse_count("--ranks-per-node", optarg, &o->per_node);
    case OPT_FILE:
        o->file = optarg;
        return 0;
    case OPT_RUN:
        o->run = optarg;
        return 0;
    case OPT_SLOTS:
        o->slots = true;
        return 0;
    case OPT_PROGRESS:
        o->progress = true;
        return 0;
    case OPT_WAIT:
        o->wait = true;
        return 0;
    default:
        o->dry_run = true;
        return 0;
    }
}

/* The long options that a command has, so that getopt_long() refuses the others. */
static void filter(int allowed, struct option *out)
{
    for (const struct option *p = options; p->name; p++)
        if (p->val == 'h' || (p->val & allowed))
            *out++ = *p;
    *out = (struct option){ 0 };
}

int ftk_opts_parse(int argc, char **argv, int allowed, ftk_usage_fn *usage, struct ftk_opts *o)
{
    int opt;
    struct option longs[sizeof options / sizeof options[0]];
    const char *shorts = allowed & OPT_OUTPUT ? ":ho:" : ":h";
    *o = (struct ftk_opts){ .rank = -1, .keep = -1, .size = -1, .teams = -1, .per_node = -1 };
    ftk_tool_name(argv[0]);
    filter(allowed, longs);
    optind = 1;
    while ((opt = ftk_usage_getopt(usage, argc, argv, shorts, longs)) != -1) {
        if (opt == 'h') {
            usage(stdout);
            return ftk_tool_end(TOOL_OK) + 1;
        }
        if (opt == '?' || take(opt == 'o' ? OPT_OUTPUT : opt, o) != 0)
            return TOOL_USAGE + 1;
    }
    o->args = argv + optind;
    o->nargs = argc - optind;
    ftk_progress_begin(o->progress);
    return 0;
}

int ftk_opts_args(const struct ftk_opts *o, ftk_usage_fn *usage, int least, const char *names)
{
    int n = 0;
    for (const char *name = names; *name; n++) {
        int len = (int)strcspn(name, " ");
        if (n == o->nargs && n < least)
            return ftk_usage_wrong(usage, "%.*s is missing", len, name);
        name += len + (name[len] == ' ');
    }
    if (o->nargs > n)
        return ftk_usage_wrong(usage, "'%s' is one argument too many", ftk_tool_why(o->args[n]));
    return 0;
}

/* ---- texts --------------------------------------------------------------------------- */

const char *ftk_state_name(int state)
{
    switch (state) {
    case FTK_SET_COMPLETE:
        return "complete";
    case FTK_SET_INCOMPLETE:
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

/* Whether path is the directory of a set, <name>.ftkit/<word>-<number>; then cut off its last name.
 * Each durable level has its word. */
static bool split_set(char *path, uint64_t *set)
{
    char again[32];
    char *base = strrchr(path, '/');
    const size_t word = base ? strspn(base + 1, "abcdefghijklmnopqrstuvwxyz0123456789") : 0;
    if (word == 0 || base[1 + word] != '-')
        return false;
    const char *digits = base + word + 2;
    *set = strtoull(digits, NULL, 10);
    snprintf(again, sizeof again, "%010" PRIu64, *set);
    size_t n = (size_t)(base - path);
    if (*set == 0 || strcmp(digits, again) != 0 || n < 6 || strncmp(base - 6, ".ftkit", 6) != 0)
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
    ftk_tool_say("no sets in %s: it has no directory <context>.ftkit; `ftkit config` shows "
                 "level.hdf5.directory, where a job writes its sets",
        w->dir);
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
    int err = stat(w->dir, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (err) {
        ftk_tool_say("%s: %s%s", w->dir, strerror(err),
            err == ENOENT ? "; `ftkit config` shows level.hdf5.directory, where a job writes its "
                            "sets"
                          : "");
        return TOOL_FAIL;
    }
    bool one = follow(w, context);
    int rc = ftk_sets_dir_contexts(w->dir, &w->contexts, &w->n);
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
        ftk_tool_say("no sets of '%s' in %s; `ftkit ls %s` lists all contexts", ftk_tool_why(only),
            w->dir, w->dir);
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
    const char *digits = strncmp(text, "set-", 4) == 0 ? text + 4 : text;
    *set = 0;
    if (strcmp(text, "newest") == 0)
        return 0;
    if (!ftk_usage_number(digits, set) || *set == 0) {
        ftk_tool_say("'%s' is not the number of a set (`ftkit ls` lists them), nor newest",
            ftk_tool_why(text));
        return TOOL_USAGE;
    }
    return 0;
}

void ftk_set_missing(const char *dir, int rc)
{
    const char *why = ftk_tool_why(ftk_detail_text());
    if (rc == FTKIT_ERR_NOT_FOUND)
        ftk_tool_say("%s; `ftkit ls %s` lists the sets", why, dir);
    else
        ftk_tool_say("%s", why);
}

int ftk_set_newest(const char *dir, const char *context, uint64_t *set)
{
    uint64_t *sets = NULL;
    int n = 0;
    int rc = ftk_sets_list(dir, context, &sets, &n);
    if (rc == FTKIT_OK && n > 0)
        *set = sets[0];
    free(sets);
    if (rc != FTKIT_OK)
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    else if (n == 0)
        ftk_tool_say("no set of '%s' in %s is complete; `ftkit ls %s` says why", context, dir, dir);
    return rc == FTKIT_OK && n > 0 ? 0 : TOOL_FAIL;
}

int ftk_sets_named(const struct ftk_where *w, const struct ftk_opts *o, uint64_t *sets, size_t *n)
{
    int code = 0;
    *n = 0;
    for (int i = 1; i < o->nargs; i++) {
        uint64_t set;
        size_t k = 0;
        if (ftk_set_number(o->args[i], &set) != 0
            || (set == 0 && ftk_set_newest(w->dir, w->contexts[0], &set) != 0)) {
            code = TOOL_FAIL;
            continue;
        }
        while (k < *n && sets[k] != set)
            k++;
        if (k == *n)
            sets[(*n)++] = set;
    }
    return code;
}

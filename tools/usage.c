/* Errors of the command line.  All they say comes from the usage text of the command, so a new
 * option or command needs nothing here.
 *
 * A usage text begins with the synopsis, up to the first blank line.  Options are in the synopsis
 * and in lines that two blanks indent; two blanks end the options of such a line.  A line that
 * ends with a comma goes on in the next line.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "tools.h"

/* The usage text, malloc'd. */
static char *text_of(ftk_usage_fn *usage)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (f)
        usage(f);
    if (!f || fclose(f) != 0) {
        fputs("ftkit: out of memory\n", stderr);
        exit(TOOL_FAIL);
    }
    return text;
}

static size_t synopsis_bytes(const char *text)
{
    const char *end = strstr(text, "\n\n");
    return end ? (size_t)(end - text) + 1 : strlen(text);
}

/* The name of the command, between "usage: ftkit " and the next blank. */
static int name_of(const char *text, const char **name)
{
    static const char begin[] = "usage: ftkit ";
    *name = text;
    if (strncmp(text, begin, sizeof begin - 1) != 0)
        return 0;
    *name += sizeof begin - 1;
    return (int)strcspn(*name, " \n");
}

/* ---- the options of a command -------------------------------------------------------- */

/* Add the options among the first len bytes of a line. */
static void add_options(struct ftk_list *l, const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool begin = i == 0 || strchr(" [|(,", line[i - 1]) != NULL;
        if (!begin || line[i] != '-')
            continue;
        size_t n = 1 + (line[i + 1] == '-');
        if (!isalpha((unsigned char)line[i + n]))
            continue;
        while (i + n < len && (isalnum((unsigned char)line[i + n]) || line[i + n] == '-'))
            n++;
        ftk_list_add_once(l, line + i, n);
        i += n;
    }
}

/* The length of the options in a line of the text; 0: the line has none. */
static size_t options_bytes(const char *line, size_t len, bool goes_on)
{
    if (strncmp(line, "  ", 2) != 0 || line[2] == ' ' || (line[2] != '-' && !goes_on))
        return 0;
    if (line[2] == '-' && line[3] == ' ') /* an item of a list */
        return 0;
    const char *end = strstr(line + 2, "  ");
    return end && (size_t)(end - line) < len ? (size_t)(end - line) : len;
}

static void options_of(const char *text, struct ftk_list *l)
{
    size_t at = synopsis_bytes(text);
    bool goes_on = false;
    add_options(l, text, at);
    while (text[at]) {
        size_t len = strcspn(text + at, "\n");
        size_t n = options_bytes(text + at, len, goes_on);
        add_options(l, text + at, n);
        goes_on = n > 0 && n == len && text[at + len - 1] == ',';
        at += len + (text[at + len] == '\n');
    }
}

bool ftk_usage_has(ftk_usage_fn *usage, const char *option)
{
    struct ftk_list l = { 0 };
    char *text = text_of(usage);
    options_of(text, &l);
    bool has = ftk_list_has(&l, option, strlen(option));
    ftk_list_free(&l);
    free(text);
    return has;
}

const char *ftk_usage_nearest(const char *word, const struct ftk_list *l)
{
    const char *best = NULL;
    size_t nearest = 0;
    const char *plain = word + strspn(word, "-");
    for (size_t i = 0; i < l->n; i++) {
        size_t d = ftk_config_distance(plain, l->v[i] + strspn(l->v[i], "-"));
        if (!best || d < nearest) {
            best = l->v[i];
            nearest = d;
        }
    }
    return best && nearest <= 1 + strlen(plain) / 3 ? best : NULL;
}

/* ---- errors -------------------------------------------------------------------------- */

static int wrong(const char *text, const char *fmt, va_list ap)
{
    const char *name;
    int len = name_of(text, &name);
    fflush(stdout);
    fprintf(stderr, "ftkit %.*s: ", len, name);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n%.*s", (int)synopsis_bytes(text), text);
    fprintf(stderr, "`ftkit help %.*s` explains the options\n", len, name);
    return TOOL_USAGE;
}

bool ftk_usage_number(const char *text, uint64_t *n)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0)
        return false;
    *n = v;
    return true;
}

int ftk_usage_wrong(ftk_usage_fn *usage, const char *fmt, ...)
{
    va_list ap;
    char *text = text_of(usage);
    va_start(ap, fmt);
    int code = wrong(text, fmt, ap);
    va_end(ap);
    free(text);
    return code;
}

int ftk_usage_unknown(ftk_usage_fn *usage, const char *option)
{
    struct ftk_list l = { 0 };
    char *text = text_of(usage), name[64];
    int code;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(option, "="), option);
    for (char *p = name; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    options_of(text, &l);
    bool letter = strlen(name) == 2; /* which resembles every other letter */
    const char *near = letter ? NULL : ftk_usage_nearest(name, &l);
    const char *other = near || letter ? NULL : ftk_command_with(name);
    if (near)
        code = ftk_usage_wrong(usage, "no option %s: did you mean %s?", name, near);
    else if (other)
        code = ftk_usage_wrong(usage, "no option %s: `ftkit %s` has it", name, other);
    else if (usage == ftk_run_usage)
        code = ftk_usage_wrong(usage,
            "no option %s: an option of mpirun goes behind --mpirun-arg, and so does each value",
            name);
    else
        code = ftk_usage_wrong(usage, "no option %s", name);
    ftk_list_free(&l);
    free(text);
    return code;
}

/* Whether the option that getopt_long() has refused is a long one; it stands before optind. */
static bool refused_long(char **argv, const struct option *longs)
{
    if (optopt == 0)
        return true;
    for (; longs->name; longs++)
        if (longs->val == optopt)
            return strncmp(argv[optind - 1], "--", 2) == 0;
    return false;
}

int ftk_usage_getopt(
    ftk_usage_fn *usage, int argc, char **argv, const char *shorts, const struct option *longs)
{
    opterr = 0;
    int c = getopt_long(argc, argv, shorts, longs, NULL);
    if (c != '?' && c != ':')
        return c;
    char letter[3] = { '-', (char)optopt, '\0' };
    const char *arg = refused_long(argv, longs) ? argv[optind - 1] : letter;
    int len = (int)strcspn(arg, "=");
    if (c == ':')
        ftk_usage_wrong(usage, "%.*s needs a value", len, arg);
    else if (optopt != 0 && arg != letter)
        ftk_usage_wrong(usage, "%.*s takes no value", len, arg);
    else
        ftk_usage_unknown(usage, arg);
    return '?';
}

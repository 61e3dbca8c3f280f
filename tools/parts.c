/* Jobs of several programs: `ftkit run -n 2 a : -n 2 b`.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools.h"

/* Options of mpirun that hold for one program, with one value each. */
static const char *const own_options[] = { "x", "wdir", "H", "host", "hostfile", "machinefile" };

static int length_of(char **argv)
{
    int n = 0;
    while (argv[n] && strcmp(argv[n], ":") != 0)
        n++;
    return n;
}

int ftk_parts_check_export(const char *text)
{
    static const char spares[] = "FTKIT_SPARES_COUNT";
    if (strncmp(text, spares, sizeof spares - 1) != 0)
        return 0;
    ftk_run_say("-x %s: write --spares S instead, because `ftkit run` starts the spares", text);
    return TOOL_USAGE;
}

/* Take an option of mpirun; at [0]: it.  Return how many words it has, 0 after a message. */
static int take_option(const struct ftk_run *r, struct ftk_part *p, char **at)
{
    static const char preload[] = "LD_PRELOAD=";
    const char *value = NULL;
    size_t i = 0;
    while (i < sizeof own_options / sizeof *own_options
           && !ftk_run_is_option(at[0], own_options[i], &value))
        i++;
    if (i == sizeof own_options / sizeof *own_options) {
        ftk_run_say("%s: behind a ':' the options are -n, --spares, -x, --wdir, -H, --host, "
                    "--hostfile and --machinefile; write others before the first program",
            at[0]);
        return 0;
    }
    const char *text = value ? value : at[1];
    if (!text || strcmp(text, ":") == 0) {
        ftk_run_say("%s takes a value, see mpirun(1)", at[0]);
        return 0;
    }
    if (i == 0 && ftk_parts_check_export(text) != 0)
        return 0;
    if (i == 0 && r->log && strncmp(text, preload, sizeof preload - 1) == 0) {
        p->preload = text + sizeof preload - 1;
    } else {
        ftk_list_add(&p->options, "%.*s", (int)strcspn(at[0], "="), at[0]);
        ftk_list_add(&p->options, "%s", text);
    }
    return value ? 1 : 2;
}

/* Read the options of a further program, and the program. */
static int parse_part(const struct ftk_run *r, struct ftk_part *p, char **argv, int argc)
{
    int at = 0;
    p->spares = -1;
    while (at < argc && argv[at][0] == '-') {
        const char *value = NULL, *arg = argv[at];
        if (strcmp(arg, "--") == 0) {
            at++;
            break;
        }
        const bool ranks = ftk_run_is_option(arg, "n", &value)
                           || ftk_run_is_option(arg, "np", &value)
                           || ftk_run_is_option(arg, "c", &value);
        if (!ranks && !ftk_run_is_option(arg, "spares", &value)) {
            const int words = take_option(r, p, argv + at);
            if (words == 0)
                return TOOL_USAGE;
            at += words;
            continue;
        }
        if (!value)
            value = ++at < argc ? argv[at] : "";
        at++;
        int rc = ranks ? ftk_run_count(arg, value, 1, &p->ranks)
                       : ftk_run_count(arg, value, 0, &p->spares);
        if (rc != 0)
            return rc;
    }
    p->argv = argv + at;
    p->argc = argc - at;
    if (p->argc <= 0 || p->ranks < 1) {
        ftk_run_say("a ':' is followed by -n N PROGRAM [ARGUMENT]...: %s is missing",
            p->argc <= 0 ? "PROGRAM" : "-n N");
        return TOOL_USAGE;
    }
    return 0;
}

int ftk_parts_parse(struct ftk_run *r)
{
    char **at = r->program;
    size_t room = 1;
    for (char **p = r->program; *p; p++)
        room += strcmp(*p, ":") == 0;
    r->parts = ftk_tool_alloc(room * sizeof *r->parts);
    r->parts[0] = (struct ftk_part){
        .ranks = r->ranks, .spares = -1, .preload = r->preload, .argv = at, .argc = length_of(at)
    };
    r->nparts = 1;
    for (at += length_of(at); *at; at += length_of(at)) {
        struct ftk_part *p = &r->parts[r->nparts++];
        int rc = parse_part(r, p, at + 1, length_of(at + 1));
        if (rc != 0)
            return rc;
        r->ranks += p->ranks;
        at++;
    }
    if (r->nparts > 1 && r->replicas > 1) {
        ftk_run_say("--replicas is possible for one program only, and this job has %d", r->nparts);
        return TOOL_USAGE;
    }
    return 0;
}

void ftk_parts_free(struct ftk_run *r)
{
    for (int i = 0; i < r->nparts; i++)
        ftk_list_free(&r->parts[i].options);
    free(r->parts);
    r->parts = NULL;
    r->nparts = 0;
}

int ftk_parts_spares(struct ftk_run *r, int fixed)
{
    int all = 0;
    for (int i = 0; i < r->nparts; i++) {
        struct ftk_part *p = &r->parts[i];
        if (p->spares >= 0 && fixed >= 0 && p->spares != fixed) {
            ftk_run_say("--spares %d, but FTKIT_SPARES_COUNT is %d: leave one of them out",
                p->spares, fixed);
            return TOOL_USAGE;
        }
        if (p->spares < 0)
            p->spares = r->spares >= 0 ? r->spares : ftk_mpirun_spares(p->ranks, r->nodes);
        if (!ftk_mpirun_ulfm())
            p->spares = 0;
        all += p->spares;
    }
    r->spares = all;
    return 0;
}

static void say_directory(const struct ftk_run *r, const char *directory)
{
    const bool here = access(directory, X_OK) == 0;
    if (!here || r->nodes > 1)
        ftk_run_say("--wdir %s: %s; every node needs this directory, and mpirun reports a missing "
                    "one as a 'system limit exceeded on number of files that can be open'",
            directory, here ? "it is on this node, perhaps not on others" : strerror(errno));
}

void ftk_parts_say_directories(const struct ftk_run *r)
{
    for (int k = 0; k < r->nparts; k++) {
        const struct ftk_list *options = k == 0 ? &r->extra : &r->parts[k].options;
        for (size_t i = 0; i < options->n; i++) {
            const char *value = NULL;
            if (!ftk_run_is_option(options->v[i], "wdir", &value))
                continue;
            if (!value && i + 1 < options->n)
                value = options->v[++i];
            if (value)
                say_directory(r, value);
        }
    }
}

/* Send the ranks the names of their variables of -x: replacements get them, too. */
static void report_exports(const struct ftk_list *options, struct ftk_list *cmd)
{
    size_t bytes = 1;
    for (size_t i = 0; i < options->n; i++)
        bytes += strlen(options->v[i]) + 1;
    char *names = ftk_tool_alloc(bytes);
    for (size_t i = 0; i + 1 < options->n; i++) {
        const char *name = options->v[i] + strspn(options->v[i], "-");
        if (options->v[i][0] != '-' || strcmp(name, "x") != 0)
            continue;
        strcat(names, *names ? "," : "");
        strncat(names, options->v[i + 1], strcspn(options->v[i + 1], "="));
    }
    if (*names) {
        ftk_list_add(cmd, "-x");
        ftk_list_add(cmd, "FTKIT_RUN_EXPORTS=%s", names);
    }
    free(names);
}

void ftk_parts_arguments(const struct ftk_run *r, struct ftk_list *cmd)
{
    for (int i = 0; i < r->nparts; i++) {
        const struct ftk_part *p = &r->parts[i];
        const struct ftk_list *options = i == 0 ? &r->extra : &p->options;
        if (i > 0)
            ftk_list_add(cmd, ":");
        if (ftk_mpirun_ulfm()) {
            ftk_mpirun_variables(r, i, cmd);
            report_exports(options, cmd);
        }
        ftk_list_add(cmd, "-n");
        ftk_list_add(cmd, "%d", p->ranks + p->spares);
        ftk_nodes_arguments(r, options, i, cmd);
        for (int k = 0; k < p->argc; k++)
            ftk_list_add(cmd, "%s", p->argv[k]);
    }
}

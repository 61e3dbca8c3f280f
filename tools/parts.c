/* Jobs of several programs: `ftkit run -n 2 a : -n 2 b`.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "tools.h"

/* Options of mpirun that hold for one program, with one value each. */
static const char *const own_options[] = { "x", "wdir", "H", "host" };

static int length_of(char **argv)
{
    int n = 0;
    while (argv[n] && strcmp(argv[n], ":") != 0)
        n++;
    return n;
}

/* Take an option of mpirun; at [0]: it.  Return how many words it has, 0 after a message. */
static int take_option(struct ftk_part *p, char **at)
{
    const char *value = NULL;
    for (size_t i = 0; i < sizeof own_options / sizeof *own_options; i++) {
        if (!ftk_run_is_option(at[0], own_options[i], &value))
            continue;
        const char *text = value ? value : at[1];
        if (!text || strcmp(text, ":") == 0) {
            ftk_run_say("%s takes a value, see mpirun(1)", at[0]);
            return 0;
        }
        if (strncmp(text, "LD_PRELOAD=", 11) == 0) {
            ftk_run_say("-x LD_PRELOAD behind a ':' is not possible: write it before the first "
                        "program");
            return 0;
        }
        const int words = value ? 1 : 2;
        for (int k = 0; k < words; k++)
            p->options[p->noptions++] = at[k];
        return words;
    }
    ftk_run_say("%s: behind a ':' the options are -n, --spares, -x, --wdir, -H and --host; write "
                "others before the first program",
        at[0]);
    return 0;
}

/* Read the options of a further program, and the program. */
static int parse_part(struct ftk_part *p, char **argv, int argc)
{
    int at = 0;
    p->spares = -1;
    p->options = ftk_tool_alloc(((size_t)argc + 1) * sizeof *p->options);
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
            const int words = take_option(p, argv + at);
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
    r->parts[0] =
        (struct ftk_part){ .ranks = r->ranks, .spares = -1, .argv = at, .argc = length_of(at) };
    r->nparts = 1;
    for (at += length_of(at); *at; at += length_of(at)) {
        struct ftk_part *p = &r->parts[r->nparts++];
        int rc = parse_part(p, at + 1, length_of(at + 1));
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

void ftk_parts_arguments(const struct ftk_run *r, struct ftk_list *cmd)
{
    for (int i = 0; i < r->nparts; i++) {
        const struct ftk_part *p = &r->parts[i];
        if (i > 0) {
            ftk_list_add(cmd, ":");
            if (ftk_mpirun_ulfm()) {
                ftk_list_add(cmd, "-x");
                ftk_list_add(cmd, "FTKIT_SPARES_COUNT=%d", p->spares);
            }
        }
        ftk_list_add(cmd, "-n");
        ftk_list_add(cmd, "%d", p->ranks + p->spares);
        if (i == 0)
            ftk_nodes_arguments(r, cmd);
        for (int k = 0; k < p->noptions; k++)
            ftk_list_add(cmd, "%s", p->options[k]);
        for (int k = 0; k < p->argc; k++)
            ftk_list_add(cmd, "%s", p->argv[k]);
    }
}

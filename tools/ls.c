/* ftkit ls: list the sets of a directory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "sets.h"
#include "store/finished.h"

void ftk_ls_usage(FILE *out)
{
    fputs("usage: ftkit ls [--json] [--context NAME] DIR\n"
          "       ftkit ls --slots [--json] [DIR]\n"
          "\n"
          "List the checkpoint sets of every context in DIR, newest first.  DIR is a\n"
          "level.hdf5.directory, or a <name>.ftkit in one.  A set is\n"
          "\n"
          "  complete    its manifest is whole, all its parts exist with their sizes\n"
          "  incomplete  it is being written, or its writing was interrupted\n"
          "  damaged     its manifest or a part is missing, or has been changed\n"
          "  finished    and it is the last one of a run that has finished\n"
          "\n"
          "This is a quick check: `ftkit verify` reads every byte.\n"
          "\n"
          "  --context NAME  only the sets of this context\n"
          "  --json          as an object: directory, sets[]: context, set, state, why\n"
          "                  (null when complete), ranks, parts (null: not known), bytes,\n"
          "                  written, finished.  With --slots: good, slots[]: path, bytes, state,\n"
          "                  why (when damaged or foreign), and when the slot has a set: context,\n"
          "                  set, rank, ranks, parity, program, directory\n"
          "  --slots         list the slots of level.memory and level.local in DIR\n"
          "                  (/dev/shm) on this node; a slot is in use, sealed, empty,\n"
          "                  foreign (another format) or damaged\n"
          "\n"
          "Exit code:\n"
          "  0  no set or slot is damaged\n"
          "  1  a set or slot is damaged, or DIR cannot be read\n"
          "  2  usage, or there are no sets\n",
        out);
}

/* "3 min"; "-": the time is in the future, so the clocks disagree. */
static void age_text(int64_t written_s, char buf[32])
{
    int64_t s = (int64_t)time(NULL) - written_s;
    if (s < 0)
        snprintf(buf, 32, "-");
    else if (s < 120)
        snprintf(buf, 32, "%" PRId64 " s", s);
    else if (s < 7200)
        snprintf(buf, 32, "%" PRId64 " min", s / 60);
    else if (s < 172800)
        snprintf(buf, 32, "%" PRId64 " h", s / 3600);
    else
        snprintf(buf, 32, "%" PRId64 " d", s / 86400);
}

static void count_text(uint32_t n, char buf[16])
{
    if (n)
        snprintf(buf, 16, "%" PRIu32, n);
    else
        snprintf(buf, 16, "-");
}

static void print_line(const char *context, const struct ftk_set_entry *e, bool finished)
{
    char age[32], size[32], when[32], ranks[16], parts[16];
    age_text(e->written_s, age);
    ftk_bytes_text(e->bytes, size);
    ftk_time_text(e->written_s, when);
    count_text(e->nranks, ranks);
    count_text(e->nparts, parts);
    printf("%10" PRIu64 "  %-16s %7s %6s %9s  %s %8s  %s\n", e->set, context, ranks, parts, size,
        when, age, finished ? "complete, finished" : ftk_state_name(e->state));
    if (e->state == FTK_SET_DAMAGED)
        printf("            %s\n", ftk_tool_why(e->why));
}

static void count_json(struct ftk_json *j, const char *name, uint32_t n)
{
    if (n)
        ftk_json_uint(j, name, n);
    else
        ftk_json_null(j, name);
}

static void print_json(
    struct ftk_json *j, const char *context, const struct ftk_set_entry *e, bool finished)
{
    char when[32];
    ftk_time_text(e->written_s, when);
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "context", context);
    ftk_json_uint(j, "set", e->set);
    ftk_json_text(j, "state", ftk_state_name(e->state));
    if (e->state == FTK_SET_COMPLETE)
        ftk_json_null(j, "why");
    else
        ftk_json_text(j, "why", ftk_tool_why(e->why));
    count_json(j, "ranks", e->nranks);
    count_json(j, "parts", e->nparts);
    ftk_json_uint(j, "bytes", e->bytes);
    ftk_json_text(j, "written", when);
    ftk_json_bool(j, "finished", finished);
    ftk_json_close(j, '}');
}

/* List a context; *lines counts the sets of all contexts.  An exit code. */
static int list_context(
    const struct ftk_where *w, const char *context, struct ftk_json *j, size_t *lines)
{
    struct ftk_set_entry *e = NULL;
    size_t n = 0;
    int code = TOOL_OK;
    if (ftk_sets_survey(w->dir, context, &e, &n) != FTKIT_OK) {
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    const uint64_t last = n > 0 ? ftk_finished_set(w->dir, context, e[0].set) : 0;
    for (size_t i = 0; i < n; i++) {
        const bool finished = e[i].set == last && e[i].state == FTK_SET_COMPLETE;
        if (e[i].state == FTK_SET_DAMAGED)
            code = TOOL_FAIL;
        if ((*lines)++ == 0 && !j)
            printf("%10s  %-16s %7s %6s %9s  %-20s %8s  %s\n", "set", "context", "ranks", "parts",
                "size", "written", "age", "state");
        if (j)
            print_json(j, context, &e[i], finished);
        else
            print_line(context, &e[i], finished);
    }
    free(e);
    return code;
}

int ftk_ls_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    struct ftk_json j = { .out = stdout };
    size_t lines = 0;
    int code = ftk_opts_parse(argc, argv, OPT_JSON | OPT_CONTEXT | OPT_SLOTS, ftk_ls_usage, &o);
    if (code)
        return code - 1;
    code = ftk_opts_args(&o, ftk_ls_usage, !o.slots, "DIR");
    if (code == 0 && o.slots && o.context)
        code = ftk_usage_wrong(ftk_ls_usage, "--slots has no use for --context");
    if (code)
        return code;
    if (o.slots)
        return ftk_slots_list(&o, false);
    code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, false);
    if (code) {
        ftk_where_free(&w);
        return code;
    }
    if (o.json) {
        ftk_json_open(&j, NULL, '{');
        ftk_json_text(&j, "directory", w.dir);
        ftk_json_open(&j, "sets", '[');
    }
    for (size_t i = 0; i < w.n; i++) {
        int bad = list_context(&w, w.contexts[i], o.json ? &j : NULL, &lines);
        code = bad ? bad : code;
    }
    if (o.json) {
        ftk_json_close(&j, ']');
        ftk_json_close(&j, '}');
    }
    if (lines == 0 && code == TOOL_OK) {
        ftk_tool_say("no sets in %s", w.dir);
        code = TOOL_USAGE;
    }
    ftk_where_free(&w);
    return ftk_tool_end(code);
}

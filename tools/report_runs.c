/* Which runs there are in event logs, and which one is shown.
 *
 * Events of a process do not name the run; its event `open` does.  The lines of `ftkit run` name no
 * run either: they belong to the runs that began between its first and its last line.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_event.h"

/* ---- members of an event ------------------------------------------------------------- */

double ftk_rp_real(const json_t *o, const char *name, double max, double otherwise)
{
    const json_t *v = json_object_get(o, name);
    double x = json_is_number(v) ? json_number_value(v) : -1;
    return isfinite(x) && x >= 0 && x <= max ? x : otherwise;
}

int64_t ftk_rp_int(const json_t *o, const char *name, int64_t low, int64_t high, int64_t otherwise)
{
    const json_t *v = json_object_get(o, name);
    json_int_t x = json_is_integer(v) ? json_integer_value(v) : (json_int_t)otherwise;
    return x >= low && x <= high ? (int64_t)x : otherwise;
}

const char *ftk_rp_str(const json_t *o, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : otherwise;
}

void ftk_rp_ranks(const json_t *o, const char *name, struct rp_ranks *l)
{
    const json_t *list = json_object_get(o, name);
    *l = (struct rp_ranks){ 0 };
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t x = json_is_integer(v) ? json_integer_value(v) : -1;
        if (x < 0 || x >= RP_RANKS_MAX)
            continue;
        if (l->named < RP_NAMED)
            l->rank[l->named++] = (int)x;
        l->n++;
    }
}

bool ftk_rp_parse(const char *line, size_t bytes, struct rp_event *e)
{
    json_error_t err;
    e->o = json_loadb(line, bytes, 0, &err);
    if (!e->o)
        return false;
    e->t = ftk_rp_real(e->o, "t", 1e10, 0);
    e->pid = ftk_rp_int(e->o, "pid", 1, INT64_MAX, 0);
    e->rank = ftk_rp_int(e->o, "rank", -1, RP_RANKS_MAX - 1, -2);
    e->context = ftk_rp_str(e->o, "context", "");
    e->word = ftk_rp_str(e->o, "event", NULL);
    /* a clock before 2001 is not set, and would stretch every axis */
    if (e->t >= 1e9 && e->pid > 0 && e->rank > -2 && e->word)
        return true;
    ftk_rp_drop(e);
    return false;
}

void ftk_rp_drop(struct rp_event *e)
{
    json_decref(e->o);
    e->o = NULL;
}

/* ---- the runs ------------------------------------------------------------------------ */

static struct rp_group *group_of(struct rp_log *log, const char *run, const char *context)
{
    for (size_t i = log->ngroups; i-- > 0;) /* a process more of the run seen last */
        if (strcmp(log->groups[i].run, run) == 0 && strcmp(log->groups[i].context, context) == 0)
            return &log->groups[i];
    if (log->ngroups == RP_RUNS_MAX)
        return NULL;
    log->groups =
        ftk_tool_grow(log->groups, log->ngroups, &log->groups_room, sizeof log->groups[0]);
    struct rp_group *g = &log->groups[log->ngroups++];
    *g = (struct rp_group){ .session = -1, .first = INFINITY };
    snprintf(g->run, sizeof g->run, "%s", run);
    snprintf(g->context, sizeof g->context, "%s", context);
    return g;
}

static void note_open(struct rp_log *log, const struct rp_event *e)
{
    char run[40], context[FTKIT_NAME_MAX + 1];
    int n = (int)ftk_rp_int(e->o, "nranks", 1, RP_RANKS_MAX, 0);
    snprintf(run, sizeof run, "%s", ftk_rp_str(e->o, "run", ""));
    snprintf(context, sizeof context, "%s", e->context);
    struct rp_group *g = n > 0 ? group_of(log, run, context) : NULL;
    if (!g)
        return;
    g->first = fmin(g->first, e->t);
    g->last = fmax(g->last, e->t);
    g->nranks = n > g->nranks ? n : g->nranks;
    g->opens++;
}

/* A line of `ftkit run`; its first attempt has the number 0. */
static void note_session(struct rp_log *log, int file, const struct rp_event *e)
{
    bool first =
        strcmp(e->word, "attempt") == 0 && ftk_rp_int(e->o, "attempt", 0, INT64_MAX, 0) == 0;
    struct rp_session *s = NULL;
    for (size_t i = log->nsessions; !first && !s && i-- > 0;)
        if (log->sessions[i].file == file && log->sessions[i].pid == e->pid)
            s = &log->sessions[i];
    if (!s) {
        if (log->nsessions == RP_RUNS_MAX)
            return;
        log->sessions = ftk_tool_grow(
            log->sessions, log->nsessions, &log->sessions_room, sizeof log->sessions[0]);
        s = &log->sessions[log->nsessions++];
        *s = (struct rp_session){ .file = file, .pid = e->pid, .begin = e->t, .end = INFINITY };
    }
    if (strcmp(e->word, "run_end") == 0)
        s->end = e->t;
}

static bool first_look(struct rp_log *log, int file, const char *line, size_t n, bool whole)
{
    struct rp_event e;
    (void)whole;
    if (!ftk_rp_parse(line, n, &e))
        return false;
    if (strcmp(e.word, "open") == 0)
        note_open(log, &e);
    else if (strcmp(e.word, "attempt") == 0 || strcmp(e.word, "run_end") == 0)
        note_session(log, file, &e);
    ftk_rp_drop(&e);
    return true;
}

int ftk_rp_session_at(const struct rp_log *log, double t)
{
    int best = -1;
    for (size_t i = 0; i < log->nsessions; i++)
        if (log->sessions[i].begin <= t + 1 && t <= log->sessions[i].end + 1
            && (best < 0 || log->sessions[i].begin > log->sessions[best].begin))
            best = (int)i;
    return best;
}

/* ---- the choice ---------------------------------------------------------------------- */

static bool together(const struct rp_group *a, const struct rp_group *b)
{
    return strcmp(a->run, b->run) == 0 || (a->session >= 0 && a->session == b->session);
}

static bool asked_for(const struct rp_group *g, const char *run, const char *context)
{
    return (!run || strcmp(g->run, run) == 0) && (!context || strcmp(g->context, context) == 0);
}

static int no_run(const struct rp_log *log, const char *run, const char *context)
{
    if (log->ngroups == 0) {
        ftk_tool_say("no run in %s%s: no line of an event log says that a process has opened a "
                     "context",
            ftk_tool_why(log->files[0].path), log->nfiles > 1 ? " and the other files" : "");
        return TOOL_FAIL;
    }
    ftk_tool_say("no run%s%s%s in these event logs; they have:",
        run       ? " "
        : context ? " of context "
                  : "",
        run ? ftk_tool_why(run) : "", run || !context ? "" : ftk_tool_why(context));
    for (size_t i = 0; i < log->ngroups && i < 20; i++) {
        char when[32];
        ftk_time_text((int64_t)log->groups[i].first, when);
        ftk_tool_say("  --run %s", ftk_tool_why(log->groups[i].run));
        ftk_tool_say("    context %s, %d ranks, began %s", ftk_tool_why(log->groups[i].context),
            log->groups[i].nranks, when);
    }
    return TOOL_FAIL;
}

int ftk_rp_choose(struct rp_log *log, const char *run, const char *context)
{
    static const char *const needles[] = { "\"open\"", "\"attempt\"", "\"run_end\"", NULL };
    const struct rp_group *newest = NULL;
    int code = ftk_rp_lines(log, needles, false, first_look);
    if (code != TOOL_OK)
        return code;
    for (size_t i = 0; i < log->ngroups; i++) {
        struct rp_group *g = &log->groups[i];
        g->session = ftk_rp_session_at(log, g->first);
        if (asked_for(g, run, context) && (!newest || g->last > newest->last))
            newest = g;
    }
    if (!newest)
        return no_run(log, run, context);
    /* of several contexts of the run, that of most processes */
    const struct rp_group *best = newest;
    for (size_t i = 0; i < log->ngroups; i++) {
        const struct rp_group *g = &log->groups[i];
        if (!context && together(g, newest)
            && (g->opens > best->opens || (g->opens == best->opens && g->first < best->first)))
            best = g;
    }
    log->main_group = (size_t)(best - log->groups);
    for (size_t i = 0; i < log->ngroups; i++) {
        struct rp_group *g = &log->groups[i];
        g->chosen = together(g, best) && strcmp(g->context, best->context) == 0;
        if (g->chosen && g->nranks > log->nranks)
            log->nranks = g->nranks;
    }
    return TOOL_OK;
}

void ftk_rp_bound_texts(struct rp_log *log)
{
    double last = 0;
    log->from_t = INFINITY;
    log->until_t = INFINITY;
    for (size_t i = 0; i < log->ngroups; i++)
        if (log->groups[i].chosen) {
            log->from_t = fmin(log->from_t, log->groups[i].first - 2);
            last = fmax(last, log->groups[i].last);
        }
    for (size_t i = 0; i < log->nsessions; i++)
        if (log->sessions[i].chosen)
            log->from_t = fmin(log->from_t, log->sessions[i].begin - 2);
    for (size_t i = 0; i < log->ngroups; i++)
        if (!log->groups[i].chosen && log->groups[i].first > last)
            log->until_t = fmin(log->until_t, log->groups[i].first - 2);
}

/* From the events of one run (docs/events.md) to the model of ftkit report.
 *
 * The files are read one after the other, so the events of different nodes come in no order.  What
 * needs order, such as the place of a rank in the program, is kept as it is written (a set, and
 * the calls since then) and computed at the end (report_sum.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_event.h"

const char *const ftk_rp_level_names[RP_LEVELS] = { "memory", "local", "files" };
const char *const ftk_rp_phase_names[RP_PHASES] = { "detect", "supply", "rebuild", "restore" };

/* ---- processes of a file ------------------------------------------------------------- */

enum { PROCS_MAX = 1 << 16, SLOTS = 2 * PROCS_MAX };

struct proc {
    int64_t pid; /* 0: free */
    int session; /* of `ftkit run`, -1: none */
    int64_t attempt;
    uint64_t base;   /* set that was restored last ... */
    double calls0;   /* ... and the number of calls at that moment */
    double calls;    /* number at its last line since then */
    double failed_t; /* 0: no failure since the last repair */
    bool ours;
};

struct rp_procs {
    int file;
    size_t n;
    struct proc slot[SLOTS]; /* hashed by pid */
};

/* The process; add: a free slot if it is new.  NULL: there is none. */
static struct proc *proc_of(struct rp_log *log, int file, int64_t pid, bool add)
{
    struct rp_procs *p = log->procs;
    if (!p)
        p = log->procs = ftk_tool_alloc(sizeof *p);
    if (p->file != file) {
        if (p->n > 0)
            memset(p, 0, sizeof *p);
        p->file = file;
    }
    size_t i = (size_t)((uint64_t)pid * 0x9e3779b97f4a7c15u >> 40) % SLOTS;
    while (p->slot[i].pid != 0 && p->slot[i].pid != pid)
        i = (i + 1) % SLOTS;
    if (p->slot[i].pid == pid)
        return &p->slot[i];
    if (!add || p->n == PROCS_MAX)
        return NULL;
    p->n++;
    p->slot[i].pid = pid;
    return &p->slot[i];
}

static bool of_run(const struct rp_log *log, const struct rp_event *e)
{
    const char *run = ftk_rp_str(e->o, "run", "");
    for (size_t i = 0; i < log->ngroups; i++)
        if (log->groups[i].chosen && strcmp(log->groups[i].context, e->context) == 0
            && strncmp(log->groups[i].run, run, sizeof log->groups[i].run - 1) == 0)
            return true;
    return false;
}

/* ---- events of ranks ----------------------------------------------------------------- */

typedef void event_fn(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r);

static void add_point(struct rp_log *log, const struct rp_event *e, struct proc *p,
    struct rp_rank *r, enum rp_kind kind)
{
    struct rp_point x = { .t = e->t, .base = p->base, .kind = kind };
    double held = ftk_rp_real(e->o, "log_held", RP_BYTES_MAX, -1);
    x.held = (float)held;
    log->held_max = fmax(log->held_max, held);
    x.calls = kind == RP_OPENS      ? NAN
              : kind == RP_RESTORES ? 1 /* the next call has the place of the set */
                                    : ftk_rp_real(e->o, "calls", RP_CALLS_MAX, NAN) - p->calls0;
    log->has_log = log->has_log || held >= 0;
    /* between a repair and the restore the number may be that of a new beginning */
    if (kind == RP_GOES_ON && (!(x.calls >= 1) || x.calls < p->calls))
        return;
    p->calls = kind == RP_GOES_ON ? x.calls : 0;
    ftk_rp_add_point(log, r, &x);
}

static struct rp_attempt *attempt_of(struct rp_log *log, int session, int64_t attempt, double t)
{
    for (size_t i = log->nattempts; i-- > 0;)
        if (log->attempts[i].session == session && log->attempts[i].attempt == attempt)
            return &log->attempts[i];
    if (log->nattempts == RP_RUNS_MAX)
        return NULL;
    log->attempts =
        ftk_tool_grow(log->attempts, log->nattempts, &log->attempts_room, sizeof log->attempts[0]);
    struct rp_attempt *a = &log->attempts[log->nattempts++];
    *a = (struct rp_attempt){ .session = session, .attempt = attempt, .begin = t, .start_set = -1 };
    return a;
}

static void on_open(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    const json_t *o = e->o;
    p->session = ftk_rp_session_at(log, e->t);
    p->attempt = ftk_rp_int(o, "attempt", 0, INT64_MAX, 0);
    p->base = 0;
    p->calls0 = 0;
    p->failed_t = 0;
    r->seen = true;
    r->closed = r->finished = false; /* those of an earlier attempt */
    bool replaces = ftk_rp_int(o, "incarnation", 0, INT64_MAX, 0) > 0;
    if (!replaces) {
        struct rp_attempt *a = attempt_of(log, p->session, p->attempt, e->t);
        if (a)
            a->opened = a->opened > 0 ? fmin(a->opened, e->t) : e->t;
    }
    add_point(log, e, p, r, replaces ? RP_REPLACES : RP_OPENS);
    log->spares = (int)ftk_rp_int(o, "spares", 0, RP_RANKS_MAX, log->spares);
    snprintf(log->program, sizeof log->program, "%s", ftk_rp_str(o, "program", log->program));
    snprintf(log->version, sizeof log->version, "%s", ftk_rp_str(o, "version", log->version));
    snprintf(log->mode, sizeof log->mode, "%s", ftk_rp_str(o, "mode", log->mode));
    snprintf(log->job, sizeof log->job, "%s", ftk_rp_str(o, "job", log->job));
}

static void on_progress(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    add_point(log, e, p, r, RP_GOES_ON);
}

static void on_finish(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    add_point(log, e, p, r, RP_GOES_ON);
    r->finished = true;
}

static void on_close(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    (void)log;
    (void)p;
    r->closed = true;
    r->code = (int)ftk_rp_int(e->o, "code", INT32_MIN, INT32_MAX, 0);
}

static void count_set(struct rp_log *log, const struct rp_event *e, struct rp_set *s, int level)
{
    double bytes = ftk_rp_real(e->o, "bytes", RP_BYTES_MAX, 0);
    double sent = ftk_rp_real(e->o, "sent", RP_BYTES_MAX, 0);
    double seconds = ftk_rp_real(e->o, "seconds", RP_SECONDS_MAX, 0);
    int64_t code = ftk_rp_int(e->o, "code", INT32_MIN, INT32_MAX, 0);
    struct rp_figures *both[] = { &log->level[level], s ? &s->level[level] : NULL };
    for (int i = 0; i < 2; i++)
        if (both[i]) {
            ftk_rp_add_figures(both[i], e->t, bytes, seconds, sent);
            both[i]->code = code < both[i]->code ? code : both[i]->code;
        }
}

static void on_set(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    uint64_t number = (uint64_t)ftk_rp_int(e->o, "set", 1, INT64_MAX, 0);
    int level = strcmp(ftk_rp_str(e->o, "level", ""), "local") == 0 ? RP_LOCAL : RP_MEMORY;
    double calls = ftk_rp_real(e->o, "calls", RP_CALLS_MAX, 0) - p->calls0;
    if (number == 0)
        return;
    struct rp_set *s = ftk_rp_set(log, number);
    if (s && calls >= 1 && p->base < number) {
        s->base = p->base;
        s->calls = calls;
    }
    count_set(log, e, s, level);
    log->level[level].sets += e->rank == 0;
    add_point(log, e, p, r, RP_GOES_ON);
}

static void on_flush(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    uint64_t number = (uint64_t)ftk_rp_int(e->o, "set", 1, INT64_MAX, 0);
    (void)p;
    (void)r;
    if (number > 0)
        count_set(log, e, ftk_rp_set(log, number), RP_FILES);
}

static void on_durable(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    uint64_t number = (uint64_t)ftk_rp_int(e->o, "set", 1, INT64_MAX, 0);
    struct rp_set *s = number > 0 ? ftk_rp_set(log, number) : NULL;
    (void)p;
    (void)r;
    log->level[RP_FILES].sets += number > 0;
    if (s)
        s->durable_t = e->t;
}

static void on_config(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    static const char *const own[] = { "t", "pid", "rank", "context", "event", NULL };
    const char *key;
    json_t *v;
    (void)p;
    (void)r;
    if (e->t < log->config_t)
        return;
    for (size_t i = 0; i < log->nkeys; i++) {
        free(log->keys[i].key);
        free(log->keys[i].value);
    }
    log->nkeys = 0;
    log->config_t = e->t;
    json_object_foreach(e->o, key, v)
    {
        bool is_own = !json_is_string(v) || log->nkeys == RP_KEYS_MAX;
        for (int i = 0; own[i]; i++)
            is_own = is_own || strcmp(key, own[i]) == 0;
        if (is_own)
            continue;
        struct rp_key k = { strndup(key, 200), strndup(json_string_value(v), 2000) };
        if (k.key && k.value)
            log->keys[log->nkeys++] = k;
    }
}

static void on_text(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    const char *level = ftk_rp_str(e->o, "level", "info");
    int k = 2;
    (void)p;
    (void)r;
    for (int i = 0; i < 4; i++)
        if (strcmp(level, names[i]) == 0)
            k = i;
    ftk_rp_add_text(log, k, e->t, e->rank, ftk_rp_str(e->o, "text", ""));
}

static void on_halt(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    (void)p;
    (void)r;
    snprintf(log->halt, sizeof log->halt, "%s", ftk_rp_str(e->o, "reason", "no reason given"));
}

static void on_energy(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    struct rp_energy *x = &log->energy;
    (void)p;
    x->measured = r->metered = true;
    snprintf(x->source, sizeof x->source, "%s", ftk_rp_str(e->o, "source", ""));
    for (int i = 0; i < RP_ENERGY_PHASES; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_s", ftk_rp_energy_names[i]);
        x->seconds[i] += ftk_rp_real(e->o, key, RP_SECONDS_MAX, 0);
        snprintf(key, sizeof key, "%s_j", ftk_rp_energy_names[i]);
        x->joules[i] += ftk_rp_real(e->o, key, RP_JOULES_MAX, 0);
    }
}

/* ---- failures ------------------------------------------------------------------------ */

static void on_failure(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    (void)log;
    (void)r;
    if (p->failed_t <= 0)
        p->failed_t = e->t;
}

static struct rp_repair *repair_of(struct rp_log *log, const struct proc *p, int64_t epoch)
{
    for (size_t i = log->nrepairs; i-- > 0;) {
        struct rp_repair *x = &log->repairs[i];
        if (x->session == p->session && x->attempt == p->attempt && x->epoch == epoch)
            return x;
    }
    if (log->nrepairs == RP_REPAIRS_MAX)
        return NULL;
    log->repairs =
        ftk_tool_grow(log->repairs, log->nrepairs, &log->repairs_room, sizeof log->repairs[0]);
    struct rp_repair *x = &log->repairs[log->nrepairs++];
    *x = (struct rp_repair){ .session = p->session, .attempt = p->attempt, .epoch = epoch };
    x->seconds = x->replay = x->catch_up = -1;
    x->spares = -1;
    return x;
}

static void take_lists(const struct rp_event *e, struct rp_repair *x)
{
    if (!json_object_get(e->o, "lost")) /* rank 0 has the lists of all ranks */
        return;
    x->lost = ftk_rp_int(e->o, "lost", 0, RP_RANKS_MAX, 0);
    x->spares = ftk_rp_int(e->o, "spares", 0, RP_RANKS_MAX, -1);
    ftk_rp_ranks(e->o, "replaced", &x->replaced);
    ftk_rp_ranks(e->o, "back", &x->back);
}

static void on_repair(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    int64_t epoch = ftk_rp_int(e->o, "epoch", 0, INT64_MAX, 0);
    double seconds = ftk_rp_real(e->o, "seconds", RP_SECONDS_MAX, 0);
    struct rp_repair *x = repair_of(log, p, epoch);
    (void)r;
    if (!x) {
        log->more_repairs += e->rank == 0;
        return;
    }
    x->survivors++;
    if (p->failed_t > 0 && (x->failed_t <= 0 || p->failed_t < x->failed_t))
        x->failed_t = p->failed_t;
    p->failed_t = 0;
    take_lists(e, x);
    if (seconds <= x->seconds)
        return;
    x->t = e->t;
    x->seconds = seconds;
    for (int i = 0; i < RP_PHASES; i++)
        x->phase[i] = ftk_rp_real(e->o, ftk_rp_phase_names[i], RP_SECONDS_MAX, 0);
    x->line = ftk_rp_int(e->o, "line", 0, INT64_MAX, 0);
}

/* The line of a process that had not opened the context yet: it got its rank in this repair.  It
 * did not survive a failure, so the figures are not taken.  If rank 0 is new, the lists are
 * here. */
static void on_early(struct rp_log *log, const struct rp_event *e, const struct proc *p)
{
    struct rp_repair *x = repair_of(log, p, ftk_rp_int(e->o, "epoch", 0, INT64_MAX, 0));
    if (!x) {
        log->more_repairs += e->rank == 0;
        return;
    }
    take_lists(e, x);
    if (x->seconds < 0) { /* until a survivor is read */
        x->t = e->t;
        x->seconds = 0;
        x->line = ftk_rp_int(e->o, "line", 0, INT64_MAX, 0);
    }
}

static void on_restore(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    p->base = (uint64_t)ftk_rp_int(e->o, "set", 0, INT64_MAX, 0);
    p->calls0 = ftk_rp_real(e->o, "calls", RP_CALLS_MAX, 0);
    add_point(log, e, p, r, RP_RESTORES);
    if (log->nrestores == RP_RESTORES_MAX) {
        log->more_restores++;
        return;
    }
    log->restores =
        ftk_tool_grow(log->restores, log->nrestores, &log->restores_room, sizeof log->restores[0]);
    struct rp_restore x = { .t = e->t, .set = p->base, .attempt = p->attempt };
    x.replay = x.catch_up = -1;
    x.session = p->session;
    x.rank = (int)e->rank;
    x.from = ftk_rp_from(log, ftk_rp_str(e->o, "from", "not said"), &x.number);
    log->restores[log->nrestores++] = x;
}

static void on_replayed(struct rp_log *log, struct rp_event *e, struct proc *p, struct rp_rank *r)
{
    (void)r;
    ftk_rp_replayed(log, e, p->session, p->attempt);
}

/* ---- events of `ftkit run` ----------------------------------------------------------- */

/* The session of a line of `ftkit run`, if it belongs to this run; else -1 */
static int session_of(const struct rp_log *log, int file, const struct rp_event *e)
{
    for (size_t i = 0; i < log->nsessions; i++) {
        const struct rp_session *s = &log->sessions[i];
        if (s->chosen && s->file == file && s->pid == e->pid && e->t >= s->begin && e->t <= s->end)
            return (int)i;
    }
    return -1;
}

static void of_launcher(struct rp_log *log, const struct rp_event *e, int session)
{
    int64_t number = ftk_rp_int(e->o, "attempt", 0, INT64_MAX, 0);
    if (strcmp(e->word, "run_end") == 0) {
        if (log->has_run_end && e->t < log->run_end_t)
            return;
        log->has_run_end = true;
        log->run_end_t = e->t;
        log->run_code = ftk_rp_int(e->o, "code", INT32_MIN, INT32_MAX, 0);
        return;
    }
    struct rp_attempt *a = attempt_of(log, session, number, e->t);
    if (!a)
        return;
    if (strcmp(e->word, "attempt") == 0) {
        a->begin = e->t;
        a->launched = true;
        return;
    }
    a->end = e->t;
    a->again = json_is_true(json_object_get(e->o, "again"));
    snprintf(a->how, sizeof a->how, "%s", ftk_rp_str(e->o, "how", ""));
}

/* ---- lines --------------------------------------------------------------------------- */

static const struct {
    const char *word;
    event_fn *fn;
} events[] = {
    { "progress", on_progress },
    { "set", on_set },
    { "flush", on_flush },
    { "durable", on_durable },
    { "open", on_open },
    { "config", on_config },
    { "failure", on_failure },
    { "repair", on_repair },
    { "restore", on_restore },
    { "replayed", on_replayed },
    { "caught_up", on_replayed },
    { "energy", on_energy },
    { "halt", on_halt },
    { "finish", on_finish },
    { "close", on_close },
    { "text", on_text },
};

static void widen(struct rp_log *log, double t)
{
    log->begin = log->used == 0 ? t : fmin(log->begin, t);
    log->end = log->used == 0 ? t : fmax(log->end, t);
    log->used++;
}

static bool is_launcher(const char *word)
{
    return strcmp(word, "attempt") == 0 || strcmp(word, "attempt_end") == 0
           || strcmp(word, "run_end") == 0;
}

/* An event of a process that is in no run: what it says before it opens a context */
static void of_no_process(struct rp_log *log, struct rp_event *e)
{
    bool text = strcmp(e->word, "text") == 0;
    bool mine = !*e->context || strcmp(e->context, log->groups[log->main_group].context) == 0;
    if ((text || strcmp(e->word, "spare") == 0) && mine && e->t >= log->from_t
        && e->t < log->until_t) {
        widen(log, e->t);
        if (text)
            on_text(log, e, NULL, NULL);
    } else {
        log->of_others++;
    }
}

static void take(struct rp_log *log, struct rp_event *e, struct proc *p)
{
    struct rp_rank *r = ftk_rp_rank(log, e->rank);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (strcmp(e->word, events[i].word) == 0) {
            if (r)
                events[i].fn(log, e, p, r);
            return;
        }
    log->unknown += strcmp(e->word, "traffic") != 0 && strcmp(e->word, "spare") != 0;
}

static void take_early(struct rp_log *log, const char *line, size_t n, void *arg)
{
    const struct proc *p = arg;
    struct rp_event e;
    if (!p->ours) {
        log->of_others++;
        return;
    }
    if (!ftk_rp_parse(line, n, &e))
        return;
    widen(log, e.t);
    if (ftk_rp_rank(log, e.rank))
        on_early(log, &e, p);
    ftk_rp_drop(&e);
}

static bool read_line(struct rp_log *log, int file, const char *line, size_t n, bool whole)
{
    struct rp_event e;
    (void)whole;
    if (!ftk_rp_parse(line, n, &e))
        return false;
    bool opens = strcmp(e.word, "open") == 0;
    bool main = strcmp(e.context, log->groups[log->main_group].context) == 0;
    struct proc *p = proc_of(log, file, e.pid, opens && main);
    if (opens && main && p)
        p->ours = of_run(log, &e);
    if (is_launcher(e.word)) {
        int session = session_of(log, file, &e);
        if (session >= 0) {
            widen(log, e.t);
            of_launcher(log, &e, session);
        } else {
            log->of_others++;
        }
    } else if (p && p->ours && main) {
        widen(log, e.t);
        take(log, &e, p);
    } else if (!p && main && strcmp(e.word, "repair") == 0) {
        ftk_rp_early_keep(log, file, e.pid, line, n);
    } else if (p && (main || !*e.context)) {
        log->of_others++;
    } else {
        of_no_process(log, &e);
    }
    ftk_rp_drop(&e);
    if (opens && main && p)
        ftk_rp_early_take(log, file, e.pid, take_early, p);
    return true;
}

/* Before all other events: teams and nodes of the ranks, and each `ftkit run` of the run. */
static bool read_teams(struct rp_log *log, int file, const char *line, size_t n, bool whole)
{
    struct rp_event e;
    (void)file;
    (void)whole;
    if (!ftk_rp_parse(line, n, &e))
        return false;
    struct rp_rank *r =
        strcmp(e.word, "open") == 0 && of_run(log, &e) ? ftk_rp_rank(log, e.rank) : NULL;
    int session = r ? ftk_rp_session_at(log, e.t) : -1;
    if (session >= 0)
        log->sessions[session].chosen = true;
    if (r) {
        r->team = (int)ftk_rp_int(e.o, "team", -1, RP_RANKS_MAX, -1);
        r->silent = ftk_rp_int(e.o, "silent", 0, 1, 0) != 0;
        r->node = (uint64_t)ftk_rp_int(e.o, "node", 0, INT64_MAX, 0);
        if (!json_is_integer(json_object_get(e.o, "node")))
            for (const char *p = ftk_rp_str(e.o, "host", ""); *p; p++)
                r->node = r->node * 31 + (unsigned char)*p;
    }
    ftk_rp_drop(&e);
    return true;
}

/* to: [[rank, messages, bytes], ...]; an entry with a mistake is left out. */
static void take_traffic(struct rp_log *log, int from, const json_t *to)
{
    ftk_rp_matrix_begin(log);
    for (size_t i = 0; i < json_array_size(to); i++) {
        const json_t *v = json_array_get(to, i);
        double x[3];
        for (size_t k = 0; k < 3; k++)
            x[k] =
                json_is_number(json_array_get(v, k)) ? json_number_value(json_array_get(v, k)) : -1;
        if (x[0] >= 0 && x[0] < log->nranks && x[1] >= 0 && x[1] <= RP_BYTES_MAX && x[2] >= 0
            && x[2] <= RP_BYTES_MAX)
            ftk_rp_matrix_add(log, from, (int)x[0], x[1], x[2]);
    }
}

/* Behind all other events: the matrix, whose rows are in the order of the teams. */
static bool read_traffic(struct rp_log *log, int file, const char *line, size_t n, bool whole)
{
    struct rp_event e;
    (void)whole;
    if (!ftk_rp_parse(line, n, &e))
        return false;
    bool opens = strcmp(e.word, "open") == 0;
    struct proc *p = proc_of(log, file, e.pid, opens);
    if (opens && p && strcmp(e.context, log->groups[log->main_group].context) == 0)
        p->ours = of_run(log, &e);
    if (p && p->ours && strcmp(e.word, "traffic") == 0 && ftk_rp_rank(log, e.rank))
        take_traffic(log, (int)e.rank, json_object_get(e.o, "to"));
    ftk_rp_drop(&e);
    return true;
}

int ftk_rp_read(struct rp_log *log)
{
    static const char *const opens[] = { "\"open\"", NULL };
    static const char *const traffic[] = { "\"open\"", "\"traffic\"", NULL };
    enum { POINTS = 2 << 20 };
    size_t each = POINTS / (size_t)log->nranks;
    log->points_max = each > 1024 ? 1024 : each < 32 ? 32 : each;
    log->ranks = ftk_tool_alloc((size_t)log->nranks * sizeof log->ranks[0]);
    for (int r = 0; r < log->nranks; r++)
        log->ranks[r].team = -1;
    int code = ftk_rp_lines(log, opens, false, read_teams);
    ftk_rp_bound_texts(log);
    if (code == TOOL_OK)
        code = ftk_rp_lines(log, NULL, true, read_line);
    ftk_rp_early_end(log);
    if (code == TOOL_OK && log->procs)
        memset(log->procs, 0, sizeof *log->procs);
    if (code == TOOL_OK)
        code = ftk_rp_lines(log, traffic, false, read_traffic);
    return code;
}

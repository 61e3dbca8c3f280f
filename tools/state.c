/* The state file of one attempt: the library and mpirun append lines to it.
 *
 * The library writes (lib/core/run_state.c):
 *
 *     met CONTEXT       all live processes open a context: none is in MPI_Init
 *     open CONTEXT      rank 0 has opened a context
 *     closed CONTEXT    ... and closed it properly
 *     set N CONTEXT     checkpoint set N is durable on the file system
 *     lost JOB RANK REPAIR LOSSES CONTEXT  this repair of a context has found that this process is
 *                       lost, one of so many
 *     idle JOB RANK     this process is a spare of a context that is closed
 *     joined JOB RANK   this spawned process belongs to the job from now on
 *     halts N SET CONTEXT  all ranks have agreed to halt at this set; set N is durable, 0: none is
 *                       yet, -: there are no files
 *     back SET CONTEXT  a repair goes back to this set: a halt at a newer one is over, because no
 *                       rank is left that has seen its commit
 *     halted N          ... and their last set is written; set N is durable, 0: there are no files
 *     repaired N CONTEXT  a failure was repaired in the job
 *     ended JOB RANK    ftkit ends the context of this process, because ...
 *     fatal TEXT        the job cannot go on
 *     lacking TEXT      ... because processes are lost before a context was opened
 *     abort RANK CODE   a rank calls MPI_Abort; the library kills it
 *     hopeless TEXT     a start has failed, and every relaunch would fail in the same way
 *     again             the same rank has died at the same call again and again
 *     differ            replicas differ before the first set
 *     busy TEXT         a start has failed because another job uses the sets
 *     mistake TEXT      the library ends the job, for a mistake that every relaunch would meet
 *     unclosed          a process ends after ftkit_finish() without ftkit_close()
 *     exit N            a process with no context open ends with this code, not 0
 *
 * mpirun --with-ft ends with 0, also when signals have killed its ranks.  Its daemons report to
 * mpirun how each process ended; mpirun prints this in the lines of errmgr_base_verbose.  The
 * lines of odls_base_verbose name the signal, but only on the node of mpirun.
 * PMIX_OUTPUT_STDERR_FD directs these lines into the state file.
 *
 * The library and mpirun write to the same file, so the order of their lines is known.  The order
 * matters: the library handles a process that ends badly while a context is open; a process that
 * ends badly while no context is open is a failure of the job.  But the report of a daemon on
 * another node may come late, after the job has gone on without the process and has closed its
 * context.  So the library names the processes that it has replaced, and the idle spares.  losses.c
 * decides when a process that was replaced had called MPI_Abort.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mpirun_text.h"
#include "losses.h"

struct context {
    char *name;
    int open;          /* number of "open" lines less number of "closed" lines */
    bool halts;        /* all ranks have agreed to halt ... */
    uint64_t halt_set; /* ... at this set */
    bool fileless;     /* ... and there are no files */
    uint64_t set;      /* newest durable set, 0: none */
};

struct ftk_state {
    FILE *file;
    long at; /* position behind the last whole line that was read */
    bool verbose;
    struct context *contexts;
    size_t ncontexts;
    struct ftk_end *bad; /* [nbad] bad ends since a context was last opened or repaired */
    size_t nbad, bad_room;
    bool sure;              /* an abort that no failure explains: the library says so */
    struct ftk_end cause;   /* the first of them, also if its process was reported as lost */
    struct ftk_end *joined; /* [njoined] spawned processes that belong to the job */
    size_t njoined, joined_room;
    struct ftk_end *broken; /* [nbroken] processes whose context ftkit has ended with an error */
    size_t nbroken, broken_room;
    struct ftk_end *named; /* [nnamed] processes whose signal is known */
    size_t nnamed, named_room;
    struct ftk_losses losses;
    bool *ended; /* [nended], by rank: whether mpirun has reported the end of this process */
    size_t nended, ended_room;
    int nends;   /* number of such processes */
    bool over;   /* lines give no facts any more */
    int started; /* number of its processes that mpirun has started on its own node */
    struct ftk_state_facts facts;
};

/* ---- lines of the library ------------------------------------------------------------ */

static struct context *context_of(struct ftk_state *s, const char *name)
{
    for (size_t i = 0; i < s->ncontexts; i++)
        if (strcmp(s->contexts[i].name, name) == 0)
            return &s->contexts[i];
    struct context *c = ftk_tool_alloc((s->ncontexts + 1) * sizeof *c);
    if (s->ncontexts)
        memcpy(c, s->contexts, s->ncontexts * sizeof *c);
    free(s->contexts);
    s->contexts = c;
    c += s->ncontexts++;
    c->name = ftk_tool_alloc(strlen(name) + 1);
    strcpy(c->name, name);
    return c;
}

static void forget_ends(struct ftk_state *s)
{
    s->nbad = 0;
    s->cause.how = FTK_END_NONE;
    s->sure = false;
}

/* Read "SET CONTEXT"; NULL: text has another form. */
static struct context *context_at_set(struct ftk_state *s, const char *text, uint64_t *set)
{
    unsigned long long number = 0;
    int name = 0;
    if (sscanf(text, "%llu %n", &number, &name) != 1)
        return NULL;
    *set = number;
    return context_of(s, text + name);
}

static void take_set(struct ftk_state *s, const char *text)
{
    uint64_t set = 0;
    struct context *c = context_at_set(s, text, &set);
    if (!c || set <= c->set)
        return;
    c->set = set;
    s->facts.set = set > s->facts.set ? set : s->facts.set;
    s->facts.nsets++;
}

static void take_fatal(struct ftk_state_facts *t, const char *text)
{
    if (t->fatal_at > 0)
        return;
    snprintf(t->fatal, sizeof t->fatal, "%s", text);
    t->fatal_at = ftk_now_s();
}

static void take_abort(struct ftk_state *s, const char *text)
{
    struct ftk_end e = { .how = FTK_END_ABORT, .job = FTK_END_MAIN_JOB };
    if (sscanf(text, "%ld %d", &e.rank, &e.code) != 2)
        return;
    e.code &= 0xff;
    s->sure = s->nbad == 0;
    if (s->sure)
        ftk_losses_abort_sure(&s->losses, &e);
    ftk_end_add(&s->bad, &s->nbad, &s->bad_room, &e);
    if (s->cause.how == FTK_END_NONE)
        s->cause = e;
}

static void take_lost(struct ftk_state *s, const char *text)
{
    struct ftk_end e;
    if (!ftk_losses_add(&s->losses, text, &e))
        return;
    size_t kept = 0;
    for (size_t i = 0; i < s->nbad; i++)
        if (!ftk_end_same(&s->bad[i], &e))
            s->bad[kept++] = s->bad[i];
    s->nbad = kept;
}

static void take_halts(struct ftk_state *s, const char *text)
{
    uint64_t set = 0;
    struct context *c = context_at_set(s, text + strcspn(text, " "), &set);
    if (!c)
        return;
    if (!c->halts || set < c->halt_set) /* a later set may have been seen by fewer ranks */
        c->halt_set = set;
    c->halts = true;
    c->fileless = *text == '-';
    const uint64_t kept = strtoull(text, NULL, 10); /* 0 for '-' */
    c->set = kept > c->set ? kept : c->set;
}

static void take_back(struct ftk_state *s, const char *text)
{
    uint64_t set = 0;
    struct context *c = context_at_set(s, text, &set);
    if (c)
        c->halts = c->halts && set >= c->halt_set;
}

/* The process that opened the context may have died before it could write "open". */
static void take_repaired(struct ftk_state *s, const char *name)
{
    if (*name) {
        struct context *c = context_of(s, name + 1);
        c->open = c->open > 0 ? c->open : 1;
        s->facts.opened = true;
    }
    s->facts.repaired = true;
    forget_ends(s);
}

static void library_line(struct ftk_state *s, char *line)
{
    struct ftk_state_facts *t = &s->facts;
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = '\0';
    if (strcmp(line, "met") == 0) {
        t->met = true;
        t->early_loss = false; /* the processes have met without those of the node */
    } else if (strcmp(line, "open") == 0) {
        context_of(s, rest)->open++;
        t->opened = true;
        t->hopeless[0] = t->busy[0] = '\0'; /* an earlier open had failed; this one has succeeded */
        forget_ends(s); /* the context has been opened without these processes */
    } else if (strcmp(line, "closed") == 0) {
        context_of(s, rest)->open--; /* `lost` and `idle` have excused processes by now */
    } else if (strcmp(line, "ended") == 0) {
        ftk_end_take(rest, &s->broken, &s->nbroken, &s->broken_room);
    } else if (strcmp(line, "joined") == 0) {
        ftk_end_take(rest, &s->joined, &s->njoined, &s->joined_room);
    } else if (strcmp(line, "lost") == 0 || strcmp(line, "idle") == 0) {
        take_lost(s, rest);
    } else if (strcmp(line, "halted") == 0) {
        t->halted_at = ftk_now_s();
        const uint64_t set = strtoull(rest, NULL, 10);
        t->halted = set > t->halted ? set : t->halted;
    } else if (strcmp(line, "halts") == 0) {
        take_halts(s, rest);
    } else if (strcmp(line, "back") == 0) {
        take_back(s, rest);
    } else if (strcmp(line, "repaired") == 0) {
        take_repaired(s, rest + strcspn(rest, " "));
    } else if (strcmp(line, "exit") == 0 && t->code == 0) {
        t->code = (int)(strtol(rest, NULL, 10) & 0xff);
    } else if (strcmp(line, "set") == 0) {
        take_set(s, rest);
    } else if (strcmp(line, "abort") == 0) {
        take_abort(s, rest);
    } else if (strcmp(line, "fatal") == 0) {
        take_fatal(t, rest);
    } else if (strcmp(line, "lacking") == 0) {
        take_fatal(t, rest);
        t->lacking = true;
    } else if (strcmp(line, "mistake") == 0) {
        take_fatal(t, rest);
        t->mistake = true;
    } else if (strcmp(line, "busy") == 0 && !t->busy[0]) {
        snprintf(t->busy, sizeof t->busy, "%s", rest);
    } else if (strcmp(line, "unclosed") == 0) {
        t->unclosed = true;
    } else if (strcmp(line, "again") == 0) {
        t->again = true;
    } else if (strcmp(line, "differ") == 0) {
        t->differ = true;
    } else if (strcmp(line, "hopeless") == 0 && !t->hopeless[0]) {
        snprintf(t->hopeless, sizeof t->hopeless, "%s", rest);
    }
}

/* ---- lines of mpirun ----------------------------------------------------------------- */

/* text is "[prterun-host-4711@1,3] ...": get job and rank of the process into *e, and return the
 * text behind ']'; NULL: the text has another form. */
static const char *process_of(const char *text, struct ftk_end *e)
{
    const char *close = strchr(text, ']');
    const char *at = strchr(text, '@');
    char *end;
    if (*text != '[' || !close || !at || at > close)
        return NULL;
    e->job = strtol(at + 1, &end, 10);
    if (*end != ',')
        return NULL;
    e->rank = strtol(end + 1, &end, 10);
    return end == close ? close + 1 : NULL;
}

static int signal_named(const char *name)
{
    for (int sig = 1; sig < NSIG; sig++)
        if (strcmp(strsignal(sig), name) == 0)
            return sig;
    return 0;
}

/* One process may have several reports. */
static void note_end(struct ftk_state *s, const struct ftk_end *e)
{
    if (e->job != FTK_END_MAIN_JOB || e->rank < 0)
        return;
    while (s->nended <= (size_t)e->rank) {
        s->ended = ftk_tool_grow(s->ended, s->nended, &s->ended_room, sizeof *s->ended);
        s->ended[s->nended++] = false;
    }
    s->nends += !s->ended[e->rank];
    s->ended[e->rank] = true;
}

static void ended(struct ftk_state *s, struct ftk_end e)
{
    if (e.job == 0)
        return; /* a daemon: the ends of its processes are reported, too */
    for (size_t i = 0; e.how == FTK_END_SIGNAL && i < s->nnamed; i++)
        if (ftk_end_same(&s->named[i], &e))
            e.sig = s->named[i].sig;
    note_end(s, &e);
    bool ours = e.job == FTK_END_MAIN_JOB || ftk_end_find(s->joined, s->njoined, &e);
    if (ours && s->cause.how == FTK_END_NONE)
        s->cause = e;
    if (e.how == FTK_END_ABORT)
        ftk_losses_abort(&s->losses, &e);
    if (ours && !ftk_losses_excuse(&s->losses, &e))
        ftk_end_add(&s->bad, &s->nbad, &s->bad_room, &e);
}

/* errmgr:dvm: for proc [...] state ABORTED BY SIGNAL */
static void take_state(struct ftk_state *s, const char *text)
{
    static const struct {
        const char *state;
        enum ftk_end_how how;
    } states[] = {
        { FTK_MPIRUN_BY_SIGNAL, FTK_END_SIGNAL },
        { FTK_MPIRUN_BY_ABORT, FTK_END_ABORT },
        { FTK_MPIRUN_BY_EXIT, FTK_END_EXIT },
        { FTK_MPIRUN_NO_FINALIZE, FTK_END_NO_FINALIZE },
    };
    struct ftk_end e = { FTK_END_NONE };
    const char *what = process_of(text, &e);
    for (size_t i = 0; what && i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(what, states[i].state) != 0)
            continue;
        e.how = states[i].how;
        /* after MPI_Abort mpirun reports a second end, by an exit code */
        const bool again = ftk_end_find(s->bad, s->nbad, &e) || ftk_losses_code(&s->losses, &e, -1);
        if (e.how != FTK_END_EXIT || !again)
            ended(s, e);
    }
}

/* errmgr:dvm: proc [...] called abort with exit code 7 */
static void take_code(struct ftk_state *s, const char *text)
{
    static const char *const words[] = { FTK_MPIRUN_CODES };
    struct ftk_end e = { FTK_END_NONE };
    const char *what = process_of(text, &e);
    struct ftk_end *bad = what ? ftk_end_find(s->bad, s->nbad, &e) : NULL;
    for (size_t i = 0; what && i < sizeof words / sizeof words[0]; i++) {
        if (strncmp(what, words[i], strlen(words[i])) != 0)
            continue;
        int code = (int)(strtol(what + strlen(words[i]), NULL, 10) & 0xff);
        if (bad)
            bad->code = code;
        (void)ftk_losses_code(&s->losses, &e, code);
        if (ftk_end_same(&s->cause, &e))
            s->cause.code = code;
    }
}

/* odls:waitpid_fired child process [...] terminated with signal Killed */
static void take_child(struct ftk_state *s, const char *text)
{
    static const char words[] = FTK_MPIRUN_CHILD_SIGNAL;
    struct ftk_end e = { FTK_END_NONE };
    const char *what = process_of(text, &e);
    if (what && strncmp(what, words, strlen(words)) == 0) {
        e.sig = signal_named(what + strlen(words));
        s->named = ftk_tool_grow(s->named, s->nnamed, &s->named_room, sizeof *s->named);
        s->named[s->nnamed++] = e;
    } else if (what && strcmp(what, " terminated normally") == 0) {
        note_end(s, &e);
    }
}

/* odls:launch spawning child [...]: mpirun is about to start the process. */
static void take_start(struct ftk_state *s, const char *text)
{
    struct ftk_end e = { FTK_END_NONE };
    if (process_of(text, &e))
        s->started += e.job == FTK_END_MAIN_JOB;
}

/* odls:construct_child_list unpacking data to launch job prterun-host-4711@1: each daemon has got
 * the order to start its processes. */
static void take_order(struct ftk_state *s, const char *text)
{
    const char *at = strrchr(text, '@');
    s->facts.ordered = s->facts.ordered || (at && strtol(at + 1, NULL, 10) == FTK_END_MAIN_JOB);
}

/* errmgr:dvm: node h2 is lost: a line of scripts/prrte. */
static void take_node(struct ftk_state *s, const char *text)
{
    if (!strstr(text, FTK_MPIRUN_NODE_LOST))
        return;
    s->facts.early_loss = s->facts.early_loss || !(s->facts.met || s->facts.opened);
}

/* "[host:4711] [prterun-host-4711@0,0] errmgr:dvm: ..."; false: not one of the lines that we
 * asked for, for example an error of mpirun. */
static bool mpirun_line(struct ftk_state *s, const char *line)
{
    static const struct {
        const char *begin;
        void (*take)(struct ftk_state *s, const char *text);
    } kinds[] = {
        { FTK_MPIRUN_STATE, take_state }, { FTK_MPIRUN_CODE, take_code },
        { FTK_MPIRUN_NODE, take_node }, { FTK_MPIRUN_CHILD, take_child },
        { FTK_MPIRUN_START, take_start }, { FTK_MPIRUN_ORDER, take_order }, { " errmgr", NULL },
        { " odls:", NULL }, { "[base/odls", NULL }, { " local:launch", NULL },
        { " SENDING SIG", NULL }, /* to processes that are left: SIGCONT, SIGTERM, SIGKILL */
        { " Sleep ", NULL },      /* between these signals */
        { " checking limit on ", NULL }, { " GETTING DAEMON ", NULL }, { " app ", NULL },
        { " Comm failure: ", NULL },  /* daemons end */
        { " hwloc:prepare ", NULL },  /* where a process is bound; since PRRTE 5 */
        { " sending signal ", NULL }, /* SIGUSR1, SIGUSR2: take_signal() of run.c */
    };
    struct ftk_end self;
    const char *name = strstr(line, "] [");
    const char *text = name ? process_of(name + 2, &self) : NULL;
    const char *number = text && self.job == 0 && self.rank == 0 ? strchr(line, ':') : NULL;
    if (number && number < name)
        s->facts.mpirun = strtol(number + 1, NULL, 10);
    for (size_t i = 0; text && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(text, kinds[i].begin, strlen(kinds[i].begin)) != 0)
            continue;
        if (kinds[i].take && !s->over)
            kinds[i].take(s, text + strlen(kinds[i].begin));
        return true;
    }
    return false;
}

/* ---- the file ------------------------------------------------------------------------ */

void ftk_state_read(struct ftk_state *s)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    clearerr(s->file);
    if (fseek(s->file, s->at, SEEK_SET) != 0)
        return;
    while ((len = getline(&line, &room, s->file)) > 0 && line[len - 1] == '\n') {
        s->at += len;
        line[len - 1] = '\0';
        if (line[0] == '[') {
            if (!mpirun_line(s, line))
                fprintf(stderr, "%s\n", line);
            continue;
        }
        if (s->verbose)
            ftk_run_say("job: %s", line);
        if (!s->over)
            library_line(s, line);
    }
    free(line);
}

void ftk_state_show(struct ftk_state *s)
{
    s->over = true;
    ftk_state_read(s);
}

struct ftk_state *ftk_state_begin(const char *path, bool verbose)
{
    struct ftk_state *s = ftk_tool_alloc(sizeof *s);
    s->file = fopen(path, "w+xe");
    s->verbose = verbose;
    if (s->file && fchmod(fileno(s->file), 0600) == 0)
        return s;
    if (s->file)
        fclose(s->file);
    ftk_run_say("cannot make %s: %s", path, strerror(errno));
    free(s);
    return NULL;
}

void ftk_state_end(struct ftk_state *s)
{
    for (size_t i = 0; i < s->ncontexts; i++)
        free(s->contexts[i].name);
    free(s->contexts);
    free(s->named);
    ftk_losses_free(&s->losses);
    free(s->bad);
    free(s->joined);
    free(s->ended);
    free(s->broken);
    fclose(s->file);
    free(s);
}

/* ---- results ------------------------------------------------------------------------- */

bool ftk_state_is_open(const struct ftk_state *s)
{
    if (s->facts.mistake || s->facts.unclosed) /* whatever the other ranks still do meanwhile */
        return false;
    for (size_t i = 0; i < s->ncontexts; i++)
        if (s->contexts[i].open > 0)
            return true;
    return false;
}

bool ftk_state_halts(const struct ftk_state *s)
{
    bool halts = false;
    for (size_t i = 0; i < s->ncontexts; i++) {
        const struct context *c = &s->contexts[i];
        if (c->halts && !c->fileless && c->set == 0)
            return false; /* the work of this context would be lost */
        halts = halts || c->halts;
    }
    return halts && !s->facts.again;
}

bool ftk_state_fileless(const struct ftk_state *s)
{
    bool halts = false;
    for (size_t i = 0; i < s->ncontexts; i++) {
        if (s->contexts[i].halts && !s->contexts[i].fileless)
            return false;
        halts = halts || s->contexts[i].halts;
    }
    return halts;
}

bool ftk_state_has_joined(const struct ftk_state *s, long job, long rank)
{
    const struct ftk_end e = { .job = job, .rank = rank };
    return ftk_end_find(s->joined, s->njoined, &e) != NULL;
}

const struct ftk_state_facts *ftk_state_facts(const struct ftk_state *s)
{
    return &s->facts;
}

const struct ftk_end *ftk_state_first(const struct ftk_state *s)
{
    const struct ftk_end *aborted = ftk_losses_aborted(&s->losses);
    return aborted ? aborted : s->nbad > 0 ? &s->bad[0] : NULL;
}

const struct ftk_end *ftk_state_cause(const struct ftk_state *s)
{
    const struct ftk_end *aborted = ftk_losses_aborted(&s->losses);
    return aborted ? aborted : s->cause.how == FTK_END_NONE ? NULL : &s->cause;
}

static const struct ftk_end *first_of(const struct ftk_state *s, enum ftk_end_how how)
{
    for (size_t i = 0; i < s->nbad; i++)
        if (s->bad[i].how == how)
            return &s->bad[i];
    return NULL;
}

const struct ftk_end *ftk_state_death(const struct ftk_state *s)
{
    return first_of(s, FTK_END_SIGNAL);
}

const struct ftk_end *ftk_state_doubtful(const struct ftk_state *s)
{
    const bool known = s->sure || ftk_losses_aborted(&s->losses);
    return !known && ftk_state_death(s) ? first_of(s, FTK_END_ABORT) : NULL;
}

bool ftk_state_aborted(const struct ftk_state *s)
{
    const struct ftk_end *first = ftk_state_first(s);
    /* a program may call MPI_Abort because its context has ended: a relaunch may help */
    return first && first->how == FTK_END_ABORT && !ftk_state_doubtful(s)
           && !ftk_end_find(s->broken, s->nbroken, first);
}

bool ftk_state_outlived(const struct ftk_state *s)
{
    return ftk_losses_aborted(&s->losses) != NULL;
}

bool ftk_state_has_ended(const struct ftk_state *s, int rank)
{
    return (size_t)rank < s->nended && s->ended[rank];
}

int ftk_state_ends(const struct ftk_state *s)
{
    return s->nends;
}

int ftk_state_started(const struct ftk_state *s)
{
    return s->started;
}

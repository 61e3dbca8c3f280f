/* Fault injection: kill processes of the job, or let a rank flip a bit of its checkpoint memory.
 *
 * Times count from the first opening of a context, and stand still while no context is open.  A
 * fault waits while no process carries its rank.  So the same faults can be injected again, also
 * on a machine that starts or relaunches jobs more slowly.  Everything random comes from the seed
 * alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/config.h"
#include "kill.h"
#include "set/flip.h"

#define OPENING_NS 5000000L /* length of a turn until the context is open: times begin there */
#define CALL_NS 1000000L    /* while a fault waits for a call */
#define LATE_S 5            /* a busy machine is not late by so much */
#define DYING_S 10          /* a killed process is gone after that */
#define TIME_MAX_S 1e9
#define COUNT_MAX 1000000L

enum what { KILL_RANK, KILL_NODE, FLIP };
enum stage { PLANNED, DUE, INJECTED };

struct fault {
    enum what what;
    enum stage stage;
    int who; /* rank, or number of a node from 1 */
    bool by_call;
    double at_s;
    uint64_t call;
    char region[64];  /* FLIP: of the program; "": of the set in memory */
    uint64_t request; /* FLIP: its number once the rank was asked, 0: not yet */
    pid_t pid;        /* KILL_RANK: the process that was killed */
    double killed_s;  /* ... and when */
};

/* --kill random:...: a process of exponential distances.  Only the next fault is in the list. */
struct source {
    double mtbf_s;
    long left;     /* faults to come, -1: no limit */
    double last_s; /* planned time of the last fault */
    size_t fault;  /* index of its present fault */
};

struct ftk_kills {
    struct fault *v; /* [n] */
    size_t n, room;
    struct source *sources; /* [nsources] */
    size_t nsources, sources_room;
    bool seeded;
    uint64_t seed;
    unsigned short state[3];       /* of nrand48(): the times and ranks of the sources */
    double opened_s;               /* first opening, plus the time without a context; 0: not yet */
    double seen_s;                 /* last look at which a context was open */
    struct ftk_progress *progress; /* NULL: not mapped */
    struct ftk_flip *flip;         /* NULL: not made */
    bool looked;                   /* the first attempt has begun */
    bool closed;                   /* no context was open at the last look */
    uint64_t requests;
};

struct ftk_facts *ftk_run_facts;

/* ---- reading the options ------------------------------------------------------------- */

static int refuse(const char *option, const char *text)
{
    ftk_run_say("%s: '%s' is not a fault such as 'rank 3 at 30 s', 'rank 3 at call 200'%s", option,
        text,
        *option && strcmp(option, "--kill") == 0 ? ", 'node 1 at 30 s' or 'random:mtbf=10s,count=5'"
                                                 : "");
    return TOOL_USAGE;
}

/* A time with or without a unit, and perhaps a blank before the unit. */
static bool read_time(const char *text, size_t len, double *s)
{
    char word[64], *end;
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < sizeof word; i++)
        if (text[i] != ' ')
            word[n++] = text[i];
    word[n] = '\0';
    double v = strtod(word, &end);
    bool plain = *end == '\0' || strcmp(end, "s") == 0; /* the configuration has no time of 0 */
    if (end == word || (!plain && ftk_config_time(word, &v) != NULL))
        return false;
    *s = v;
    return v >= 0 && v <= TIME_MAX_S;
}

/* "mtbf=10s", "mtbf=10s,count=5" */
static int read_random(struct ftk_kills *k, const char *option, const char *all, const char *text)
{
    struct source s = { .left = -1 };
    size_t len = strcspn(text, ",");
    if (strncmp(text, "mtbf=", 5) != 0 || !read_time(text + 5, len - 5, &s.mtbf_s) || s.mtbf_s <= 0)
        return refuse(option, all);
    text += len;
    if (*text) {
        char *end;
        if (strncmp(text, ",count=", 7) != 0)
            return refuse(option, all);
        s.left = strtol(text + 7, &end, 10);
        if (end == text + 7 || *end != '\0' || s.left < 1 || s.left > COUNT_MAX)
            return refuse(option, all);
    }
    k->sources = ftk_tool_grow(k->sources, k->nsources, &k->sources_room, sizeof *k->sources);
    k->sources[k->nsources++] = s;
    return 0;
}

static size_t add(struct ftk_kills *k, const struct fault *f)
{
    k->v = ftk_tool_grow(k->v, k->n, &k->room, sizeof *k->v);
    k->v[k->n] = *f;
    return k->n++;
}

/* Take " in REGION" from the end of a flip. */
static bool read_region(struct fault *f, char *text)
{
    char *in = strstr(text, " in ");
    if (f->what != FLIP || !in)
        return true;
    *in = '\0';
    return in[4] != '\0'
           && snprintf(f->region, sizeof f->region, "%s", in + 4) < (int)sizeof f->region;
}

/* "rank 3 at 30 s", "rank 3 at call 200", "node:1 at 30 s"; a flip: "rank 3 at 30 s in u" */
static int read_fault(struct ftk_kills *k, const char *option, const char *all, bool flips)
{
    struct fault f = { .what = flips ? FLIP : strncmp(all, "node", 4) ? KILL_RANK : KILL_NODE };
    char text[160], *end;
    if (snprintf(text, sizeof text, "%s", all) >= (int)sizeof text || !read_region(&f, text))
        return refuse(option, all);
    if (strncmp(text, f.what == KILL_NODE ? "node" : "rank", 4) != 0)
        return refuse(option, all);
    const char *number = text + 4 + strspn(text + 4, " :");
    long who = strtol(number, &end, 10);
    if (end == number || *number < '0' || *number > '9' || who > COUNT_MAX
        || strncmp(end, " at ", 4) != 0)
        return refuse(option, all);
    f.who = (int)who;
    const char *when = end + 4 + strspn(end + 4, " ");
    if (strncmp(when, "call ", 5) == 0) {
        f.by_call = true;
        f.call = strtoull(when + 5, &end, 10);
        if (f.call == 0 || *end != '\0' || strchr(when, '-'))
            return refuse(option, all);
    } else if (!read_time(when, strlen(when), &f.at_s)) {
        return refuse(option, all);
    }
    add(k, &f);
    return 0;
}

int ftk_kill_option(struct ftk_kills **k, const char *option, const char *text)
{
    if (!*k)
        *k = ftk_tool_alloc(sizeof **k);
    if (strcmp(option, "--seed") == 0) {
        (*k)->seeded = true;
        if (ftk_usage_number(text, &(*k)->seed))
            return 0;
        ftk_run_say("--seed: '%s' is not a number", text);
        return TOOL_USAGE;
    }
    if (strncmp(text, "random:", 7) == 0 && strcmp(option, "--kill") == 0)
        return read_random(*k, option, text, text + 7);
    return read_fault(*k, option, text, strcmp(option, "--flip") == 0);
}

/* ---- the plan ------------------------------------------------------------------------ */

/* Make the next fault of a source.  Times are whole milliseconds, so that a printed time is the
 * planned time.  When a fault came very late, because of a long repair, the later ones move:
 * otherwise all that have become due would come at once. */
static void draw(struct ftk_kills *k, struct source *s, int ranks, double past_s)
{
    double u = erand48(k->state);
    if (s->last_s < past_s - s->mtbf_s - LATE_S)
        s->last_s = past_s;
    s->last_s = round((s->last_s - s->mtbf_s * log(1 - u)) * 1e3) / 1e3;
    const struct fault f = {
        .what = KILL_RANK, .at_s = s->last_s, .who = (int)(nrand48(k->state) % ranks)
    };
    s->fault = add(k, &f);
    s->left -= s->left > 0;
}

void ftk_kill_seed(uint64_t seed, unsigned short state[3])
{
    for (int i = 0; i < 3; i++)
        state[i] = (unsigned short)(seed >> (16 * i));
    for (int i = 0; i < 8; i++) /* the first numbers of neighbouring seeds are similar */
        (void)nrand48(state);
}

int ftk_kill_plan(struct ftk_run *r)
{
    struct ftk_kills *k = r->kills;
    if (!k && ftk_run_facts) /* no faults, but somebody wants to know about the run */
        k = r->kills = ftk_tool_alloc(sizeof *k);
    if (!k)
        return 0;
    if (!k->seeded)
        k->seed = ftk_random() % 1000000000;
    ftk_kill_seed(k->seed, k->state);
    for (size_t i = 0; i < k->n; i++) {
        const struct fault *f = &k->v[i];
        int first = f->what == KILL_NODE, n = f->what == KILL_NODE ? r->emulate : r->ranks;
        if (f->what == KILL_NODE && r->emulate == 0) {
            ftk_run_say("--kill: nodes can be killed only with --emulate-nodes; of real nodes, "
                        "kill the ranks");
            return TOOL_USAGE;
        }
        if (f->who < first || f->who >= n + first) {
            ftk_run_say("there is no %s %d: the %s are %d to %d", first ? "node" : "rank", f->who,
                first ? "nodes" : "ranks", first, n + first - 1);
            return TOOL_USAGE;
        }
    }
    for (size_t i = 0; i < k->nsources; i++)
        draw(k, &k->sources[i], r->ranks, 0);
    return 0;
}

/* The option that injects the fault again. */
static void option_of(const struct fault *f, char *text, size_t bytes)
{
    char when[32];
    if (f->by_call)
        snprintf(when, sizeof when, "call %" PRIu64, f->call);
    else
        snprintf(when, sizeof when, "%.3f s", f->at_s);
    snprintf(text, bytes, "--%s '%s %d at %s%s%s'", f->what == FLIP ? "flip" : "kill",
        f->what == KILL_NODE ? "node" : "rank", f->who, when, f->region[0] ? " in " : "",
        f->region);
}

/* ---- injecting ----------------------------------------------------------------------- */

static void *map_file(const struct ftk_run *r, const char *name, size_t bytes, bool make)
{
    char path[FTK_PATH_MAX];
    struct stat st;
    void *at = MAP_FAILED;
    snprintf(path, sizeof path, "%.*s/%s", FTK_PATH_MAX - 32, r->dir, name);
    int fd = open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0), 0600);
    if (fd >= 0 && (!make || ftruncate(fd, (off_t)bytes) == 0) && fstat(fd, &st) == 0
        && st.st_size == (off_t)bytes)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED && make)
        ftk_run_say("cannot make %s: %s; no bit will be flipped", path, strerror(errno));
    if (fd >= 0)
        (void)close(fd); /* the mapping stays */
    return at == MAP_FAILED ? NULL : at;
}

static uint64_t position(const struct ftk_kills *k)
{
    return k->progress ? atomic_load(&k->progress->now) : 0;
}

static void injected(struct fault *f)
{
    f->stage = INJECTED;
    if (!ftk_run_facts)
        return;
    ftk_run_facts->killed++;
    ftk_run_facts->before_set += ftk_run_facts->set_s < 0;
}

/* Whether a process that an earlier fault has killed has not ended yet: two faults of a rank that
 * are due at once are for two processes.  After DYING_S the number may be that of another one. */
static bool is_dying(const struct ftk_kills *k, pid_t pid, double now)
{
    bool dying = false;
    for (size_t i = 0; i < k->n; i++)
        dying = dying || (k->v[i].pid == pid && now < k->v[i].killed_s + DYING_S);
    return dying;
}

static void kill_rank(struct ftk_kills *k, struct fault *f)
{
    char option[96];
    pid_t pid = ftk_carrier_find(f->who);
    if (pid == 0 || is_dying(k, pid, ftk_now_s()) || kill(pid, SIGKILL) != 0)
        return; /* it has just ended, or a repair replaces it: the next turn looks again */
    f->pid = pid;
    f->killed_s = ftk_now_s();
    option_of(f, option, sizeof option);
    ftk_run_say("killed rank %d (process %d) at %.3f s, after call %" PRIu64
                " of ftkit_checkpoint; again: %s",
        f->who, (int)pid, ftk_now_s() - k->opened_s, position(k), option);
    injected(f);
}

static void kill_node(const struct ftk_run *r, struct ftk_kills *k, struct fault *f)
{
    char option[96];
    int n = ftk_carrier_end_node(r, f->who);
    if (n == 0)
        return;
    option_of(f, option, sizeof option);
    ftk_run_say("killed node %d (%d processes) at %.3f s, after call %" PRIu64
                " of ftkit_checkpoint; again: %s",
        f->who, n, ftk_now_s() - k->opened_s, position(k), option);
    injected(f);
}

/* Whether a rank has been asked to flip a bit, and has not done so yet. */
static bool flips(const struct ftk_kills *k)
{
    return k->flip && atomic_load(&k->flip->done) != k->requests;
}

static void say_flip(const struct ftk_kills *k, const struct fault *f)
{
    char option[160], of[96];
    const uint64_t set = atomic_load(&k->flip->set);
    option_of(f, option, sizeof option);
    if (set == 0) {
        ftk_run_say("rank %d (process %d) has no region '%s' with memory of its own: no bit is "
                    "flipped",
            f->who, atomic_load(&k->flip->pid), f->region);
        return;
    }
    if (f->region[0])
        snprintf(of, sizeof of, "region '%s'", f->region);
    else
        snprintf(of, sizeof of, "its segment of set %" PRIu64, set);
    ftk_run_say("rank %d (process %d) has flipped bit %d of byte %" PRIu64
                " of %s at %.3f s; again: --seed %" PRIu64 " %s",
        f->who, atomic_load(&k->flip->pid), atomic_load(&k->flip->bit), atomic_load(&k->flip->byte),
        of, ftk_now_s() - k->opened_s, k->seed, option);
}

/* Ask the rank, which flips the bit in its next call of ftkit_checkpoint.  One request at a time
 * is under way. */
static void flip(struct ftk_kills *k, struct fault *f)
{
    if (!k->flip)
        return;
    if (f->request == 0) {
        if (flips(k))
            return; /* an earlier one waits for its rank */
        unsigned short state[3];
        ftk_kill_seed(k->seed, state);
        for (ptrdiff_t i = 0; i < 2 * (f - k->v); i++) /* each bit has numbers of its own */
            (void)nrand48(state);
        uint64_t high = (uint64_t)nrand48(state);
        memcpy(k->flip->region, f->region, sizeof f->region);
        atomic_store(&k->flip->rank, f->who);
        atomic_store(&k->flip->random, high << 31 | (uint64_t)nrand48(state));
        f->request = ++k->requests;
        atomic_store(&k->flip->asked, f->request);
    }
    if (atomic_load(&k->flip->done) != f->request)
        return;
    say_flip(k, f);
    injected(f);
}

static void inject(const struct ftk_run *r, struct ftk_kills *k, struct fault *f)
{
    if (f->what == KILL_RANK)
        kill_rank(k, f);
    else if (f->what == KILL_NODE)
        kill_node(r, k, f);
    else
        flip(k, f);
}

/* ---- the turns of the run ------------------------------------------------------------ */

static void note(const struct ftk_kills *k, const struct ftk_state *s, int attempt, double now)
{
    struct ftk_facts *x = ftk_run_facts;
    if (!x)
        return;
    x->attempts = attempt + 1;
    x->opened = x->opened || k->opened_s > 0;
    x->repaired = x->repaired || ftk_state_facts(s)->repaired;
    if (k->opened_s > 0 && ftk_state_is_open(s))
        x->open_s = now - k->opened_s;
    for (size_t i = 0; k->progress && x->set_s < 0 && i < FTK_PROGRESS_SETS; i++)
        if (atomic_load(&k->progress->sets[i].set) > 0)
            x->set_s = now - k->opened_s;
}

/* The first attempt begins. */
static void begin(const struct ftk_run *r, struct ftk_kills *k)
{
    bool any = false;
    for (size_t i = 0; i < k->n; i++)
        any = any || k->v[i].what == FLIP;
    if (any || k->nsources > 0)
        ftk_run_say("faults are random: --seed %" PRIu64 " injects the same ones", k->seed);
    if (any) /* before the ranks look for the file */
        k->flip = map_file(r, FTK_FLIP_FILE, sizeof *k->flip, true);
    k->looked = true;
}

/* Inject what is due, and shorten the turn. */
static void look(const struct ftk_run *r, struct ftk_kills *k, double past_s, long *turn_ns)
{
    uint64_t at = position(k);
    for (size_t i = 0; i < k->n; i++) {
        struct fault *f = &k->v[i];
        if (f->stage == INJECTED)
            continue;
        bool due = f->by_call ? at >= f->call : past_s >= f->at_s;
        f->stage = due ? DUE : f->stage;
        /* a kill waits until a flip under way is done, so that a rollback can find the bit */
        if (due && (f->what == FLIP || !flips(k)))
            inject(r, k, f);
        double wait_s = f->by_call || flips(k) ? CALL_NS / 1e9 : f->at_s - past_s;
        if (f->stage != INJECTED && wait_s > 0 && wait_s < (double)*turn_ns / 1e9)
            *turn_ns = (long)(wait_s * 1e9) + 1;
    }
    for (size_t i = 0; i < k->nsources; i++)
        if (k->v[k->sources[i].fault].stage == INJECTED && k->sources[i].left != 0)
            draw(k, &k->sources[i], r->ranks, past_s);
}

/* Rank 0 stands still in the first call at which a fault is due, so that the run does not go on
 * before the fault.  It goes on after one try: a rank that has just been lost has no process. */
static void hold_rank_0(struct ftk_kills *k)
{
    uint64_t first = 0;
    for (size_t i = 0; i < k->n; i++)
        if (k->v[i].by_call && k->v[i].stage == PLANNED && (first == 0 || k->v[i].call < first))
            first = k->v[i].call;
    if (k->progress)
        atomic_store(&k->progress->hold, first);
}

void ftk_kill_look(const struct ftk_run *r, const struct ftk_state *s, int attempt, long *turn_ns)
{
    struct ftk_kills *k = r->kills;
    if (!k)
        return;
    double now = ftk_now_s();
    bool open = ftk_state_is_open(s);
    if (!k->looked)
        begin(r, k);
    if (!k->progress)
        k->progress = map_file(r, FTK_PROGRESS_FILE, sizeof *k->progress, false);
    if (k->opened_s <= 0 && open)
        k->opened_s = k->seen_s = now;
    else if (open && k->closed) /* the time stood still */
        k->opened_s += now - k->seen_s;
    k->closed = !open;
    k->seen_s = open ? now : k->seen_s;
    note(k, s, attempt, now);
    if (!open || (ftk_run_facts && ftk_run_facts->set_s < 0))
        *turn_ns = *turn_ns < OPENING_NS ? *turn_ns : OPENING_NS;
    if (open)
        look(r, k, now - k->opened_s, turn_ns);
    hold_rank_0(k);
}

void ftk_kill_end(const struct ftk_run *r)
{
    struct ftk_kills *k = r->kills;
    if (!k)
        return;
    for (size_t i = 0; i < k->n; i++) {
        char option[96];
        bool endless = false;
        for (size_t j = 0; j < k->nsources; j++)
            endless = endless || (k->sources[j].fault == i && k->sources[j].left < 0);
        if (k->v[i].stage == INJECTED || endless || !k->looked)
            continue;
        if (k->v[i].request && atomic_load(&k->flip->done) == k->v[i].request) {
            say_flip(k, &k->v[i]); /* the run has ended since the last look */
            continue;
        }
        option_of(&k->v[i], option, sizeof option);
        ftk_run_say("%s was not injected: the run ended before, or no process of this machine "
                    "carried the rank",
            option);
    }
    for (size_t i = 0; ftk_run_facts && k->progress && i < FTK_PROGRESS_SETS; i++) {
        ftk_run_facts->sets[i].set = atomic_load(&k->progress->sets[i].set);
        ftk_run_facts->sets[i].at = atomic_load(&k->progress->sets[i].at);
    }
    if (ftk_run_facts && k->progress)
        ftk_run_facts->calls = atomic_load(&k->progress->furthest);
    free(k->v);
    free(k->sources);
    free(k);
}

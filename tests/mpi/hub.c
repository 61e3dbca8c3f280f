/* One rank sends the same to many: rank 0, the hub, sends its buffer of SIZE words 15 times to each
 * other rank in a step.  The others answer with a hash of all that they have received.
 *
 *   -m same     the buffer changes in each eighth step
 *   -m differ   it changes in each step, and its last word before each message
 *   -m graph    by one MPI_Neighbor_allgather of a type with gaps; it changes in each step
 *   -m shared   as same; the buffer is shared, and messages begin at other words
 *   -m unshare  it changes in each step, is shared, and is wiped behind ftkit_unshare()
 *   -m changed  as shared, but the hub breaks its word in step 13: a byte changes, behind the
 *               messages of the step
 *   -m unshared as changed, and ftkit_unshare() comes directly behind that
 *   -m lazy     as shared; from the fourth step of eight on the last rank gets nothing, and behind
 *               it the buffer changes; with FTKIT_FAULT step 3 waits for a repair before that
 *   -m edge     as differ; all words but the last one are shared
 *   -m bad      as same; before the loop come calls that are wrong
 *
 * The hub compares what its log holds (log_held) with the bytes that are different, after each step
 * but those of `differ`, and prints at its end "hub holds MOST bytes in COPIES copies".
 *
 * A step passes app.mid once, in the middle of its messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum variant { SAME, DIFFER, GRAPH, SHARED, UNSHARE, CHANGED, UNSHARED, LAZY, EDGE, BAD };
static const char *const variants[] = { "same", "differ", "graph", "shared", "unshare", "changed",
    "unshared", "lazy", "edge", "bad" };

enum {
    MESSAGES = 15, /* to each rank in a step */
    STEPS = 8,     /* for which the buffer stays as it is */
    IDLE = 3,      /* step of these in which the last rank begins to be lazy */
    PLACES = 3,    /* where messages of memory that is shared begin ... */
    APART = 8,     /* ... with so many words between them */
    BREAKS = 13    /* the step */
};

static struct {
    enum variant is;
    uint64_t *state; /* [2] registered: hash of what was received; what was wrong */
    uint64_t *buf, *in;
    MPI_Comm graph;
    MPI_Datatype gaps; /* [size] words, with a word between two of them */
    bool apart;        /* lines are: the log has messages of two intervals */
    int content;       /* number of what the buffer has; 0: nothing yet */
    bool shared;
    uint64_t set;
    int rollbacks, repairs;
    uint64_t copies;   /* that the log may have, of this interval */
    uint64_t unshared; /* of these, in this interval */
    uint64_t held;     /* the most so far */
} g;

static uint64_t info_of(const struct foreign *f, ftkit_info *info)
{
    *info = (ftkit_info){ .size = sizeof *info };
    return ftkit_query(f->ft, info) != FTKIT_OK;
}

static size_t room(const struct foreign *f)
{
    return 2 * (size_t)f->size + (size_t)PLACES * APART;
}

static uint64_t differs(int got, int want)
{
    return got != want;
}

/* What a program may do wrong; how many calls do not return what they should. */
static uint64_t call_wrongly(const struct foreign *f)
{
    char *at = (char *)g.buf;
    ftkit_ctx *ft = f->ft;
    uint64_t bad = differs(ftkit_share(ft, NULL, 8), FTKIT_ERR_ARG);
    bad += differs(ftkit_share(ft, at, 0), FTKIT_ERR_ARG);
    bad += differs(ftkit_share(ft, at, SIZE_MAX), FTKIT_ERR_ARG);
    bad += differs(ftkit_unshare(ft, NULL), FTKIT_ERR_ARG);
    bad += differs(ftkit_unshare(ft, at), FTKIT_ERR_NOT_FOUND);
    bad += differs(ftkit_share(ft, at + 100, 100), FTKIT_OK);
    bad += differs(ftkit_share(ft, at + 100, 100), FTKIT_ERR_EXISTS);
    bad += differs(ftkit_share(ft, at + 199, 1), FTKIT_ERR_EXISTS);
    bad += differs(ftkit_share(ft, at + 1, 100), FTKIT_ERR_EXISTS);
    bad += differs(ftkit_share(ft, at, 300), FTKIT_ERR_EXISTS);
    bad += differs(ftkit_share(ft, at + 120, 10), FTKIT_ERR_EXISTS);
    bad += differs(ftkit_unshare(ft, at + 101), FTKIT_ERR_NOT_FOUND);
    bad += differs(ftkit_share(ft, at + 200, 8), FTKIT_OK); /* side by side */
    bad += differs(ftkit_share(ft, at, 100), FTKIT_OK);
    bad += differs(ftkit_unshare(ft, at + 200), FTKIT_OK);
    bad += differs(ftkit_unshare(ft, at + 200), FTKIT_ERR_NOT_FOUND);
    bad += differs(ftkit_unshare(ft, at), FTKIT_OK);
    bad += differs(ftkit_unshare(ft, at + 100), FTKIT_OK);
    return bad;
}

static int prepare(struct foreign *f)
{
    const int is = foreign_variant(f, variants, sizeof variants / sizeof variants[0]);
    g.is = (enum variant)is;
    g.apart = getenv("FTKIT_CHECKPOINT_LINE") != NULL;
    g.buf = malloc(room(f) * sizeof *g.buf);
    g.in = calloc(room(f) * MESSAGES, sizeof *g.in);
    g.state = foreign_state(f, 2);
    if (is < 0 || !g.buf || !g.in || !g.state)
        return 1;
    if ((g.is == CHANGED || g.is == UNSHARED)
        && ftkit_register(f->ft, "payload", g.buf, room(f), MPI_UINT64_T) != FTKIT_OK)
        return 1;
    /* until the first set */
    if (f->rank == 0 && g.is == SHARED
        && ftkit_share(f->ft, g.buf, room(f) * sizeof *g.buf) != FTKIT_OK)
        return 1;
    return g.is == BAD && call_wrongly(f) > 0;
}

/* A graph with MESSAGES edges from the hub to each other rank. */
static int connect_graph(struct foreign *f)
{
    const int others = f->nranks - 1, in = f->rank > 0 ? MESSAGES : 0;
    const int out = f->rank == 0 ? MESSAGES * others : 0;
    int *from = calloc((size_t)in + 1, sizeof *from), *to = calloc((size_t)out + 1, sizeof *to);
    int *weight = calloc((size_t)(in + out) + 1, sizeof *weight);
    int bad = !from || !to || !weight;
    for (int i = 0; !bad && i < out; i++)
        to[i] = 1 + i % others;
    bad = bad
          || MPI_Dist_graph_create_adjacent(
                 f->comm, in, from, weight, out, to, weight, MPI_INFO_NULL, 0, &g.graph)
                 != MPI_SUCCESS
          || MPI_Type_vector(f->size, 1, 2, MPI_UINT64_T, &g.gaps) != MPI_SUCCESS
          || MPI_Type_commit(&g.gaps) != MPI_SUCCESS;
    free(from);
    free(to);
    free(weight);
    return bad;
}

static int connect(struct foreign *f)
{
    g.graph = MPI_COMM_NULL;
    g.gaps = MPI_DATATYPE_NULL;
    return g.is == GRAPH ? connect_graph(f) : 0;
}

static void disconnect(void)
{
    if (g.graph != MPI_COMM_NULL)
        MPI_Comm_free(&g.graph);
    if (g.gaps != MPI_DATATYPE_NULL)
        MPI_Type_free(&g.gaps);
}

static void fill(const struct foreign *f, int number)
{
    const uint64_t first = foreign_mix((uint64_t)number, 1);
    for (size_t i = 0; i < room(f); i++)
        g.buf[i] = first * (2 * i + 1);
    g.content = number;
    g.copies++;
}

static bool is_shared(void)
{
    return g.is == SHARED || g.is == CHANGED || g.is == UNSHARED || g.is == LAZY;
}

static void share(const struct foreign *f)
{
    const size_t words = g.is == EDGE ? (size_t)f->size - 1 : room(f);
    const int rc = ftkit_share(f->ft, g.buf, words * sizeof *g.buf);
    if (rc != FTKIT_OK)
        fprintf(stderr, "hub: step %d: %s\n", f->step, ftkit_detail(f->ft));
    g.state[1] += differs(rc, FTKIT_OK);
    g.shared = true;
}

static void unshare(const struct foreign *f)
{
    g.state[1] += differs(ftkit_unshare(f->ft, g.buf), FTKIT_OK);
    g.shared = false;
    g.unshared++;
}

/* A set or a rollback has been since the last step: the log is empty, and nothing is shared. */
static void look_for_set(const struct foreign *f)
{
    ftkit_info info;
    g.state[1] += info_of(f, &info);
    if (g.set == info.committed && g.rollbacks == info.rollbacks)
        return;
    const bool back = g.rollbacks != info.rollbacks || (g.copies == 0 && info.incarnation > 0);
    if (back)
        g.content = 0; /* the restore has changed the buffer, if it is a region */
    g.set = info.committed;
    g.rollbacks = info.rollbacks;
    g.copies = g.content > 0;
    g.unshared = 0;
    g.repairs = back ? -1 : info.repairs; /* a replay copies */
    g.shared = false;
}

static void begin(const struct foreign *f)
{
    const bool often = g.is == DIFFER || g.is == EDGE || g.is == GRAPH || g.is == UNSHARE;
    const int part = g.is == LAZY && f->step % STEPS > IDLE;
    const int content = 1 + (often ? f->step : 2 * (f->step / STEPS) + part);
    look_for_set(f);
    if (g.shared && content != g.content)
        unshare(f);
    if (content != g.content)
        fill(f, content);
    if (!g.shared && (is_shared() || g.is == UNSHARE || g.is == EDGE))
        share(f);
}

/* After a repair the log has a copy of what is shared. */
static void look(const struct foreign *f)
{
    ftkit_info info;
    g.state[1] += info_of(f, &info);
    const bool none = is_shared() && info.repairs == g.repairs;
    uint64_t copies = none ? g.unshared : is_shared() ? PLACES * g.copies : g.copies;
    copies += g.is == UNSHARE ? (uint64_t)info.repairs : 0; /* one before, one behind a repair */
    const uint64_t bytes = (uint64_t)f->size * sizeof *g.buf;
    if (g.is != DIFFER && g.is != EDGE
        && info.log_held > (copies + g.apart) * (bytes + bytes / 100) + 65536) {
        fprintf(stderr, "hub: step %d: %llu bytes are held in %llu copies of %llu\n", f->step,
            (unsigned long long)info.log_held, (unsigned long long)copies,
            (unsigned long long)bytes);
        g.state[1]++;
    }
    g.held = info.log_held > g.held ? info.log_held : g.held;
}

static bool is_idle(const struct foreign *f, int rank)
{
    return g.is == LAZY && rank == f->nranks - 1 && f->step % STEPS >= IDLE;
}

/* The messages of number k to all others.  Every second time they are under way together. */
static bool send_all(const struct foreign *f, int k)
{
    MPI_Request req[64];
    int n = 0;
    const uint64_t *from = g.buf + (is_shared() ? k % PLACES * APART : 0);
    for (int r = 1; r < f->nranks && r <= 64; r++) {
        if (is_idle(f, r))
            continue;
        if (g.is == DIFFER || g.is == EDGE) {
            g.buf[f->size - 1]++;
            g.copies++;
        }
        if (k % 2 == 0 && g.is != DIFFER && g.is != EDGE)
            MPI_Isend(from, f->size, MPI_UINT64_T, r, k, f->comm, &req[n++]);
        else if (MPI_Send(from, f->size, MPI_UINT64_T, r, k, f->comm) != MPI_SUCCESS)
            return false;
    }
    return MPI_Waitall(n, req, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
}

static bool exchange(const struct foreign *f)
{
    if (g.is == GRAPH) {
        (void)FTK_FAULT("app.mid");
        return MPI_Neighbor_allgather(g.buf, 1, g.gaps, g.in, f->size, MPI_UINT64_T, g.graph)
               == MPI_SUCCESS;
    }
    for (int k = 0; k < MESSAGES; k++) {
        if (k == MESSAGES / 2)
            (void)FTK_FAULT("app.mid");
        if (is_idle(f, f->rank))
            continue;
        if (f->rank == 0 ? !send_all(f, k)
                         : MPI_Recv(g.in + (size_t)k * (size_t)f->size, f->size, MPI_UINT64_T, 0, k,
                               f->comm, MPI_STATUS_IGNORE)
                               != MPI_SUCCESS)
            return false;
    }
    return true;
}

/* The last rank begins its first lazy step when the hub has all that it has sent before: if that
 * rank dies then, the hub needs nothing of it. */
static bool begin_idle(const struct foreign *f)
{
    const int last = f->nranks - 1;
    int go = 0;
    if (g.is != LAZY || f->step != IDLE || (f->rank != 0 && f->rank != last))
        return true;
    return (f->rank == 0 ? MPI_Send(&go, 1, MPI_INT, last, 97, f->comm)
                         : MPI_Recv(&go, 1, MPI_INT, 0, 97, f->comm, MPI_STATUS_IGNORE))
           == MPI_SUCCESS;
}

/* The last rank gets nothing any more, so the hub does not wait for it.  When this rank has died,
 * its messages are sent again while the buffer changes. */
static void change_early(const struct foreign *f)
{
    ftkit_info info = { .repairs = 0 };
    int there;
    while (getenv("FTKIT_FAULT") && info.repairs == 0) {
        MPI_Iprobe(f->nranks - 1, 98, f->comm, &there, MPI_STATUS_IGNORE);
        g.state[1] += info_of(f, &info);
    }
    unshare(f);
    fill(f, g.content + 1);
    fprintf(stderr, "hub: another buffer\n");
}

static void break_word(const struct foreign *f)
{
    ((char *)g.buf)[1000] ^= 1;
    if (g.is == CHANGED)
        return;
    g.state[1] += differs(ftkit_unshare(f->ft, g.buf), FTKIT_ERR_STATE);
    g.shared = false;
}

static void hub(const struct foreign *f)
{
    begin(f);
    if (!begin_idle(f) || !exchange(f))
        return;
    if (g.is == UNSHARE) {
        unshare(f);
        memset(g.buf, 0, room(f) * sizeof *g.buf);
    }
    if ((g.is == CHANGED || g.is == UNSHARED) && f->step == BREAKS)
        break_word(f);
    for (int r = 1; r < f->nranks; r++) {
        uint64_t theirs = 0;
        if (is_idle(f, r))
            continue;
        if (MPI_Recv(&theirs, 1, MPI_UINT64_T, r, 99, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        *g.state = foreign_mix(theirs, *g.state);
    }
    look(f);
    if (g.is == LAZY && f->step == IDLE)
        change_early(f);
}

static void step(struct foreign *f)
{
    if (f->rank == 0) {
        hub(f);
        return;
    }
    if (!begin_idle(f) || !exchange(f) || is_idle(f, f->rank))
        return;
    *g.state =
        XXH3_64bits_withSeed(g.in, (size_t)MESSAGES * (size_t)f->size * sizeof *g.in, *g.state);
    MPI_Send(g.state, 1, MPI_UINT64_T, 0, 99, f->comm);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t length)
{
    if (f->rank == 0)
        fprintf(stderr, "hub holds %llu bytes in %llu copies\n", (unsigned long long)g.held,
            (unsigned long long)g.copies);
    return foreign_counted(f, *g.state, g.state[1], hash, detail, length);
}

static void release(void)
{
    free(g.buf);
    free(g.in);
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "hub", 24, 131072, prepare, connect, disconnect, step,
        verdict, release };
    return foreign_main(argc, argv, &app);
}

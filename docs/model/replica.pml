/* Replicas: a sibling takes over, a lost replica is made again, as a model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ranks, each with a replica in two planes, run a small program (below).  The program has an
 * open outcome on each rank: a value that the rank chooses, and that its messages depend on.  At
 * most FAILURES processes die, at any moments; there are SPARES spares.
 *
 * A process of a plane receives from the process that serves the other rank in this plane: the
 * replica of the plane, or its sibling when that replica is dead.  The leader of a rank chooses its
 * outcomes and tells its sibling before a message that depends on them leaves.  A spare begins at
 * the start of the program, gets the messages of the logs, and sends nothing: it is a shadow.  When
 * it has caught up with its sibling, it serves its plane again.
 * (Rezaei and Mueller, DINO, sections 4 to 6: a clone and its differences to the lost replica.)
 *
 * If no replica of a rank is left that serves, all begin again: the line is the start.  A repair is
 * one step here; docs/model/log.pml has its inside.
 *
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices. */

#ifndef FAILURES
#define FAILURES 2
#endif

#ifndef SPARES
#define SPARES 1
#endif

#define NP 4 /* processes: plane * 2 + rank */
#define NM 3 /* numbers 1..2 of messages */
#define RANK(x) ((x) & 1)
#define PLANE(x) ((x) >> 1)
#define PROC(plane, rank) ((plane) * 2 + (rank))
#define SIBLING(x) ((x) ^ 2)
#define W(x, y) ((x) * 2 + PLANE(y)) /* the channel from x to the process y of the other rank */

typedef msgs {
    byte v[NM];
}

/* ---- the program: pc and what the processes know ---------------------------------------------
 * rank 0: choose a; send a; receive b; send a + b.   rank 1: receive a; choose c; send a + 2 c;
 * receive d. */
byte pc[NP];
byte outcome[NP]; /* the choice; 0: none yet */
byte heard[NP];   /* the last value received */
#define END 4

byte sent[NP], got[NP];
msgs log[NP];                            /* what the process has sent */
chan wire[NP * 2] = [4] of { byte, byte }; /* number, value */
byte upto[NP * 2];                       /* suppression: the receiver has the messages up to here */
msgs seen[2];                            /* ghost: what any process of a rank has received */

/* ---- replicas --------------------------------------------------------------------------------- */
bool dead[NP], gone[NP]; /* gone: dead, and the repair is over */
bool shadow[NP];
byte server[NP]; /* [PROC(plane, rank)] who sends for this rank to this plane */
byte told[NP];   /* the outcome that the sibling has told; 0: none */
chan news[NP] = [1] of { byte }; /* to the process, from its sibling */
bool kept[NP];   /* the sibling has the outcome, or there is no sibling */

byte left = FAILURES, spares = SPARES;

#define LIVES(x) (!dead[x])
#define SERVES(x) (!dead[x] && !shadow[x])
/* Only a repair makes the other replica the leader. */
#define LEADS(x) (SERVES(x) && (PLANE(x) == 0 || gone[SIBLING(x)] || shadow[SIBLING(x)]))

byte i, k, n, w, y;

/* Put message number k of x on the wire to the process to. */
inline put(x, to)
{
    if
    :: LIVES(to) && k > upto[W(x, to)] -> wire[W(x, to)]!k, log[x].v[k]
    :: else
    fi
}

inline send(x, val)
{
    sent[x]++;
    k = sent[x];
    log[x].v[k] = val;
    if
    :: server[PROC(0, RANK(x))] == x -> put(x, PROC(0, 1 - RANK(x)))
    :: else
    fi;
    if
    :: server[PROC(1, RANK(x))] == x -> put(x, PROC(1, 1 - RANK(x)))
    :: else
    fi;
    k = 0
}

#define FROM(x) server[PROC(PLANE(x), 1 - RANK(x))]
#define HAS(x) (len(wire[W(FROM(x), x)]) > 0)

inline receive(x)
{
    wire[W(FROM(x), x)]?n, w;
    got[x]++;
    assert(n == got[x]);
    assert(seen[RANK(x)].v[n] == 0 || seen[RANK(x)].v[n] == w);
    seen[RANK(x)].v[n] = w;
    heard[x] = w;
    n = 0; w = 0
}

/* ---- open outcomes ----------------------------------------------------------------------------- */

inline choose(x, val)
{
    outcome[x] = val;
    kept[x] = false;
    if
    :: LIVES(SIBLING(x)) -> news[SIBLING(x)]!val
    :: dead[SIBLING(x)] && !gone[SIBLING(x)] -> skip /* the repair will tell */
    :: gone[SIBLING(x)] -> kept[x] = true
    fi
}

#ifdef BREAK_LEADER
#define MAY_CHOOSE(x) (LIVES(x) && told[x] == 0)
#else
#define MAY_CHOOSE(x) (LEADS(x) && told[x] == 0)
#endif

#ifdef BREAK_KEPT
#define MAY_SEND(x) true
#else
#define MAY_SEND(x) (kept[x])
#endif

inline listen(x)
{
    news[x]?w;
    told[x] = w;
    kept[SIBLING(x)] = true;
    w = 0
}

/* ---- a repair ---------------------------------------------------------------------------------- */

inline discard(c)
{
    do
    :: len(c) > 0 -> c?n, w
    :: else -> break
    od;
    n = 0; w = 0
}

/* x begins to send for its rank to the process to: the receiver has got[to] messages. */
inline take_over(x, to)
{
    discard(wire[W(x, to)]);
    upto[W(x, to)] = got[to];
#ifdef BREAK_MARK
    if
    :: upto[W(x, to)] > sent[x] -> upto[W(x, to)] = sent[x]
    :: else
    fi;
#endif
#ifndef BREAK_RESEND
    for (k : 1 .. 2) {
        if
        :: k <= sent[x] -> put(x, to)
        :: else
        fi
    }
#endif
    k = 0
}

/* The process x begins at the start of the program. */
inline begin(x)
{
    pc[x] = 0; outcome[x] = 0; heard[x] = 0; sent[x] = 0; got[x] = 0; told[x] = 0; kept[x] = true;
    shadow[x] = false; dead[x] = false; gone[x] = false;
    log[x].v[1] = 0; log[x].v[2] = 0;
    do
    :: len(news[x]) > 0 -> news[x]?w
    :: else -> break
    od;
    w = 0;
    discard(wire[W(x, PROC(0, 1 - RANK(x)))]);
    discard(wire[W(x, PROC(1, 1 - RANK(x)))]);
    upto[W(x, PROC(0, 1 - RANK(x)))] = 0;
    upto[W(x, PROC(1, 1 - RANK(x)))] = 0
}

inline start()
{
    for (i : 0 .. 3) {
        begin(i);
        server[i] = i
    }
    for (i : 0 .. 1) {
        for (k : 1 .. 2) {
            seen[i].v[k] = 0
        }
    }
    i = 0; k = 0
}

/* x is dead.  Its sibling serves the plane of x, too. */
inline replace(x)
{
    y = SIBLING(x);
    gone[x] = true;
    do
    :: len(news[x]) > 0 -> news[x]?w
    :: len(news[x]) == 0 && len(news[y]) > 0 -> /* on its way: it may be lost */
        news[y]?w;
        if
        :: told[y] = w
        :: skip
        fi
    :: len(news[x]) + len(news[y]) == 0 -> break
    od;
    w = 0;
    kept[y] = true; /* there is no sibling to keep it */
    if
    :: !shadow[x] ->
#ifndef BREAK_SERVE
        server[x] = y;
#endif
        if
        :: LIVES(PROC(PLANE(x), 1 - RANK(x))) -> take_over(y, PROC(PLANE(x), 1 - RANK(x)))
        :: else
        fi
    :: else
    fi;
    shadow[x] = false;
    y = 0
}

#define LOST(rank) (!SERVES(PROC(0, rank)) && !SERVES(PROC(1, rank)))

inline repair()
{
    if
    :: LOST(0) || LOST(1) -> start()
    :: else ->
        for (i : 0 .. 3) {
            if
            :: dead[i] && !gone[i] -> replace(i)
            :: else
            fi
        }
        i = 0
    fi
}

/* A spare becomes the replica x, from the start of the program. */
inline clone(x)
{
    spares--;
    begin(x);
    shadow[x] = true;
    y = SIBLING(x);
#ifdef BREAK_UNUSED
    told[x] = outcome[y]; /* without outcomes that the sibling has heard of, and not reached */
#elif !defined(BREAK_TOLD)
    told[x] = (outcome[y] > 0 -> outcome[y] : told[y]);
#endif
    take_over(FROM(x), x);
    y = 0
}

/* x has caught up with its sibling. */
inline rejoin(x)
{
    shadow[x] = false;
    server[x] = x;
    if
    :: LIVES(PROC(PLANE(x), 1 - RANK(x))) ->
        y = PROC(PLANE(x), 1 - RANK(x));
        discard(wire[W(SIBLING(x), y)]);
        take_over(x, y);
        y = 0
    :: else
    fi
}

#define CAUGHT_UP(x) (pc[x] == pc[SIBLING(x)] && len(news[x]) == 0)
#define NEW_DEAD(x) (dead[x] && !gone[x])
#define REPAIRED (!NEW_DEAD(0) && !NEW_DEAD(1) && !NEW_DEAD(2) && !NEW_DEAD(3))
#define ENDED(x) (gone[x] || (LIVES(x) && pc[x] == END))
#define OVER (REPAIRED && ENDED(0) && ENDED(1) && ENDED(2) && ENDED(3))

#define STEPS(x)                                                                                   \
    :: atomic { LIVES(x) && len(news[x]) > 0 -> listen(x) }                                        \
    :: atomic { left > 0 && LIVES(x) && !OVER -> left--; dead[x] = true }                          \
    :: atomic { REPAIRED && gone[x] && spares > 0 && !OVER -> clone(x) }                           \
    :: atomic { REPAIRED && LIVES(x) && shadow[x] && CAUGHT_UP(x) -> rejoin(x) }

#define CHOICE(x, at)                                                                              \
    :: atomic { pc[x] == at && MAY_CHOOSE(x) -> choose(x, 1); pc[x] = at + 1 }                     \
    :: atomic { pc[x] == at && MAY_CHOOSE(x) -> choose(x, 2); pc[x] = at + 1 }                     \
    :: atomic { LIVES(x) && pc[x] == at && told[x] > 0 -> outcome[x] = told[x]; pc[x] = at + 1 }

#define RANK_0(x)                                                                                  \
    STEPS(x)                                                                                       \
    CHOICE(x, 0)                                                                                   \
    :: atomic { LIVES(x) && pc[x] == 1 && MAY_SEND(x) -> send(x, outcome[x]); pc[x] = 2 }          \
    :: atomic { LIVES(x) && pc[x] == 2 && HAS(x) -> receive(x); pc[x] = 3 }                        \
    :: atomic { LIVES(x) && pc[x] == 3 -> send(x, outcome[x] + heard[x]); pc[x] = 4 }

#define RANK_1(x)                                                                                  \
    STEPS(x)                                                                                       \
    :: atomic { LIVES(x) && pc[x] == 0 && HAS(x) -> receive(x); pc[x] = 1 }                        \
    CHOICE(x, 1)                                                                                   \
    :: atomic { LIVES(x) && pc[x] == 2 && MAY_SEND(x) ->                                           \
            send(x, heard[x] + 2 * outcome[x]); pc[x] = 3 }                                        \
    :: atomic { LIVES(x) && pc[x] == 3 && HAS(x) -> receive(x); pc[x] = 4 }

active proctype world()
{
    atomic { start() }
    do
    RANK_0(0)
    RANK_1(1)
    RANK_0(2)
    RANK_1(3)
    :: atomic { !REPAIRED -> repair() }
    :: OVER -> break
    od
}

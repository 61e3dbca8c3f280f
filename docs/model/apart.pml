/* A line apart: each rank cuts at a moment of its own, as a model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Three ranks, each of them a team, run a small program (below).  The program has two wildcard
 * receives.  The first decides which messages there are, so a second outcome depends on the first.
 * A line is tried: each rank cuts at any moment.  At most FAILURES failures happen at any moments: a
 * rank dies, or the whole job.  A repair is one step here; docs/model/log.pml has its inside.
 *
 * Line 0 is the beginning of the program.  Line 1 is the one that is tried.
 *
 * A late message is sent before its sender's cut, and received after its receiver's cut.  An early
 * message is sent after its sender's cut, and received before its receiver's cut.
 * (Bronevetsky et al., PPoPP 2003, for late and early messages and for recorded outcomes.)
 *
 * Messages are numbered from the beginning.  The numbers are ghosts on the wire: receivers count.
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices. */

#ifndef FAILURES
#define FAILURES 2
#endif

#ifndef TRIES
#define TRIES 1 /* lines that are begun, at most */
#endif

#define NR 3
#define NM 3 /* numbers 1..2 on a channel */
#define BIT(n) (1 << (n))
#define S(i, j) ((i) * NR + (j)) /* the channel from i to j */

typedef msgs {
    byte v[NM];
}

/* ---- the program: pc and what the ranks know --------------------------------------------- */
byte pc[NR];
byte known[NR]; /* rank 0, 1: the source of the wildcard receive + 1; rank 2: the value from 0 */
#define END0 3
#define END1 4
#define END2 4

byte sent[NR * NR], got[NR * NR]; /* got: delivered */
chan wire[NR * NR] = [2] of { byte, byte, bit }; /* number, value, tainted */
chan held[NR * NR] = [2] of { byte, byte, bit }; /* drained: receives look here first */
msgs had[NR * NR];                /* what was delivered */
byte upto[NR * NR];               /* suppression: the receiver has the messages up to here */
byte det[NR];                     /* determinants in the memory of the node: source + 1 */

/* the log of the sender: messages before its cut and since its cut */
byte before[NR * NR], since[NR * NR]; /* masks of numbers */
msgs value[NR * NR];

/* ---- the line -------------------------------------------------------------------------------*/
bool cut[NR], records[NR], tainted[NR], votes[NR], knows[NR];
byte cut_pc[NR], cut_known[NR], cut_sent[NR * NR], cut_got[NR * NR];
/* the tail of the set */
msgs late[NR * NR];
byte nlate[NR * NR];
byte tail_det[NR];

/* ---- failures ---------------------------------------------------------------------------------*/
bool dead[NR];
byte left = FAILURES, tries = TRIES;

#define ALL(x) (x[0] && x[1] && x[2])
#define ANY(x) (x[0] || x[1] || x[2])

byte i, j, k, n, w;
bit t;
bool found;

inline send(me, to, val)
{
    sent[S(me, to)]++;
    n = sent[S(me, to)];
    value[S(me, to)].v[n] = val;
    if
    :: cut[me] -> since[S(me, to)] = since[S(me, to)] | BIT(n)
    :: else -> before[S(me, to)] = before[S(me, to)] | BIT(n)
    fi;
    if
    :: n <= upto[S(me, to)] ->
        assert(had[S(me, to)].v[n] == val || had[S(me, to)].v[n] == 0) /* the replay check */
    :: else -> wire[S(me, to)]!n, val, (tainted[me] && !knows[me])
    fi;
    n = 0
}

#define HAS(from, me) (len(held[S(from, me)]) + len(wire[S(from, me)]) > 0)

inline receive(me, from)
{
    if
    :: len(held[S(from, me)]) > 0 -> held[S(from, me)]?n, w, t
    :: len(held[S(from, me)]) == 0 -> wire[S(from, me)]?n, w, t
    fi;
    got[S(from, me)]++;
    assert(n == got[S(from, me)]);
    had[S(from, me)].v[n] = w;
#ifndef BREAK_STOP
    if
    :: t && !knows[me] -> /* the sender's control message: this rank stops recording, too */
        records[me] = false;
        tainted[me] = true
    :: else
    fi;
#endif
    n = 0;
    t = 0
}

/* A wildcard receive of me has got a message of from. */
inline decide(me, from)
{
    receive(me, from);
    w = 0;
    known[me] = from + 1;
    det[me] = from + 1;
    if
    :: cut[me] && records[me] -> tail_det[me] = from + 1
    :: cut[me] && !records[me] && !knows[me] && tail_det[me] == 0 -> tainted[me] = true
    :: else
    fi
}

#define MAY(me, from) (HAS(from, me) && (det[me] == 0 || det[me] == from + 1))
#define RUNS(r) (!dead[r])

#define MAY_CUT(r) (RUNS(r) && !cut[r] && (tries > 0 || ANY(cut)))

/* ---- steps of the line ----------------------------------------------------------------------*/

inline make_cut(r)
{
    if
    :: !ANY(cut) -> tries--
    :: else
    fi;
    cut[r] = true;
    records[r] = true;
#ifndef BREAK_PLAN
    if
    :: known[r] == 0 -> tail_det[r] = det[r] /* of a replay under way: recorded before the cut */
    :: else
    fi;
#endif
    cut_pc[r] = pc[r];
    cut_known[r] = known[r];
    for (j : 0 .. 2) {
        cut_sent[S(r, j)] = sent[S(r, j)];
        cut_got[S(j, r)] = got[S(j, r)];
#ifdef BREAK_GENERATION
        before[S(r, j)] = 0
#endif
    }
    j = 0
}

/* All ranks have cut, so all counts are known.  Late messages go into the tail, whether the program
 * has received them or not. */
inline close_and_vote(r)
{
    for (j : 0 .. 2) {
        do
        :: got[S(j, r)] + len(held[S(j, r)]) < cut_sent[S(j, r)] ->
            wire[S(j, r)]?n, w, t;
            had[S(j, r)].v[n] = w;
            held[S(j, r)]!n, w, t
        :: else -> break
        od;
        nlate[S(j, r)] = 0;
#ifndef BREAK_LATE
        if
        :: cut_sent[S(j, r)] > cut_got[S(j, r)] ->
            nlate[S(j, r)] = cut_sent[S(j, r)] - cut_got[S(j, r)]
        :: else
        fi;
#endif
        for (k : 1 .. 2) {
            if
            :: k > cut_got[S(j, r)] && k <= cut_sent[S(j, r)] -> late[S(j, r)].v[k] = had[S(j, r)].v[k]
            :: else
            fi
        }
    }
    votes[r] = true;
    j = 0; k = 0; n = 0; w = 0; t = 0
}

inline learn(r)
{
    knows[r] = true;
    records[r] = false;
    tainted[r] = false;
    for (j : 0 .. 2) {
        before[S(r, j)] = 0 /* a generation of the log is dropped after the vote was seen */
    }
    j = 0
}

/* Forget the cut and the tail of rank r. */
inline forget_line(r)
{
    tail_det[r] = 0;
    cut_pc[r] = 0;
    cut_known[r] = 0;
    for (j : 0 .. 2) {
        cut_sent[S(r, j)] = 0;
        cut_got[S(j, r)] = 0;
        nlate[S(j, r)] = 0;
        late[S(j, r)].v[1] = 0;
        late[S(j, r)].v[2] = 0
    }
}

inline withdraw(r)
{
    cut[r] = false; records[r] = false; tainted[r] = false; votes[r] = false;
    forget_line(r);
    for (j : 0 .. 2) {
        before[S(r, j)] = before[S(r, j)] | since[S(r, j)];
        since[S(r, j)] = 0
    }
    j = 0
}

/* ---- a repair -------------------------------------------------------------------------------*/

inline discard(c)
{
    do
    :: len(c) > 0 -> c?n, w, t
    :: else -> break
    od;
    n = 0; w = 0; t = 0
}

/* Rank r begins again at the line: found tells which. */
inline restore(r)
{
    pc[r] = (found -> cut_pc[r] : 0);
    known[r] = (found -> cut_known[r] : 0);
    cut[r] = found; votes[r] = found; knows[r] = found;
    records[r] = false; tainted[r] = false;
    for (j : 0 .. 2) {
        discard(wire[S(r, j)]);
        discard(wire[S(j, r)]);
        discard(held[S(j, r)]);
        before[S(r, j)] = 0;
        since[S(r, j)] = 0;
        sent[S(r, j)] = (found -> cut_sent[S(r, j)] : 0);
        got[S(j, r)] = (found -> cut_got[S(j, r)] : 0);
        for (k : 1 .. 2) {
            if
            :: found && k > got[S(j, r)] && k <= got[S(j, r)] + nlate[S(j, r)] ->
                held[S(j, r)]!k, late[S(j, r)].v[k], 0
            :: else
            fi
        }
    }
    j = 0; k = 0
}

/* In a repair the receiver r tells the sender s how many messages r has. */
inline tell(s, r)
{
#ifdef BREAK_REBASE
    /* relative to the receiver's cut instead of the sender's */
    upto[S(s, r)] = got[S(s, r)] + len(held[S(s, r)]);
    if
    :: found -> upto[S(s, r)] = upto[S(s, r)] + cut_sent[S(s, r)] - cut_got[S(s, r)]
    :: else
    fi
#else
    upto[S(s, r)] = got[S(s, r)] + len(held[S(s, r)])
#endif
}

/* How many messages of s the rank r has.  Early messages count. */
#ifdef BREAK_EARLY
#define HAS_UPTO(s, r) (found -> cut_sent[S(s, r)] : 0)
#else
#define HAS_UPTO(s, r) (got[S(s, r)] + len(held[S(s, r)]))
#endif

/* Rank r was dead.  The sender s sends the messages of its log that r does not have. */
inline resend(s, r)
{
    for (k : 1 .. 2) {
        if
        :: k > HAS_UPTO(s, r) && k <= sent[S(s, r)] && ((before[S(s, r)] | since[S(s, r)]) & BIT(k)) ->
            wire[S(s, r)]!k, value[S(s, r)].v[k], 0
        :: else
        fi
    }
    k = 0
}

inline repair()
{
    found = (knows[0] && !dead[0]) || (knows[1] && !dead[1]) || (knows[2] && !dead[2]);
    if
    :: ALL(dead) -> /* the job begins again from files: the set is whole if all have voted */
        found = ALL(votes);
        for (i : 0 .. 2) {
#ifdef BREAK_DETERMINANT
            det[i] = 0
#else
            det[i] = (found -> tail_det[i] : 0)
#endif
        }
    :: else
    fi;
    for (i : 0 .. 2) {
        if
        :: !dead[i] && found -> learn(i); cut[i] = true
        :: !dead[i] && !found -> withdraw(i)
        :: else
        fi
    }
    for (i : 0 .. 2) {
        if
        :: dead[i] ->
            restore(i);
            if
            :: !found -> forget_line(i); j = 0
            :: else
            fi
        :: else
        fi
    }
    for (i : 0 .. 2) {
        if
        :: dead[i] ->
            if
            :: i != 0 -> tell(i, 0); tell(0, i)
            :: else
            fi;
            if
            :: i != 1 -> tell(i, 1); tell(1, i)
            :: else
            fi;
            if
            :: i != 2 -> tell(i, 2); tell(2, i)
            :: else
            fi
        :: else
        fi
    }
    for (i : 0 .. 2) {
        if
        :: dead[i] ->
            if
            :: i != 0 && !dead[0] -> resend(0, i)
            :: else
            fi;
            if
            :: i != 1 && !dead[1] -> resend(1, i)
            :: else
            fi;
            if
            :: i != 2 && !dead[2] -> resend(2, i)
            :: else
            fi
        :: else
        fi
    }
    for (i : 0 .. 2) {
        dead[i] = false
    }
    i = 0;
    found = false
}

#define OVER (!ANY(dead) && pc[0] == END0 && pc[1] == END1 && pc[2] == END2)

active proctype world()
{
    do
    /* rank 0: the first of two messages decides to whom rank 0 sends */
    :: atomic { RUNS(0) && pc[0] == 0 && MAY(0, 1) -> decide(0, 1); pc[0] = 1 }
    :: atomic { RUNS(0) && pc[0] == 0 && MAY(0, 2) -> decide(0, 2); pc[0] = 1 }
    :: atomic { RUNS(0) && pc[0] == 1 && known[0] == 2 -> send(0, 2, 2); send(0, 1, 1); pc[0] = 2 }
    :: atomic { RUNS(0) && pc[0] == 1 && known[0] == 3 -> send(0, 2, 3); pc[0] = 2 }
    :: atomic { RUNS(0) && pc[0] == 2 && known[0] == 2 && HAS(2, 0) -> receive(0, 2); w = 0; pc[0] = 3 }
    :: atomic { RUNS(0) && pc[0] == 2 && known[0] == 3 && HAS(1, 0) -> receive(0, 1); w = 0; pc[0] = 3 }

    /* rank 1: one message comes, from rank 0 or from rank 2 */
    :: atomic { RUNS(1) && pc[1] == 0 -> send(1, 2, 7); pc[1] = 1 }
    :: atomic { RUNS(1) && pc[1] == 1 -> send(1, 0, 1); pc[1] = 2 }
    :: atomic { RUNS(1) && pc[1] == 2 && MAY(1, 0) -> decide(1, 0); pc[1] = 3 }
    :: atomic { RUNS(1) && pc[1] == 2 && MAY(1, 2) -> decide(1, 2); pc[1] = 3 }
    :: atomic { RUNS(1) && pc[1] == 3 -> send(1, 2, known[1]); pc[1] = 4 }

    /* rank 2 */
    :: atomic { RUNS(2) && pc[2] == 0 -> send(2, 0, 2); pc[2] = 1 }
    :: atomic { RUNS(2) && pc[2] == 1 && HAS(0, 2) -> receive(2, 0); known[2] = w; w = 0; pc[2] = 2 }
    :: atomic { RUNS(2) && pc[2] == 2 && HAS(1, 2) ->
            receive(2, 1);
            assert(w == 7);
            w = 0;
            if
            :: known[2] == 3 -> send(2, 1, 2)
            :: else
            fi;
            pc[2] = 3 }
    :: atomic { RUNS(2) && pc[2] == 3 && HAS(1, 2) ->
            receive(2, 1);
            assert(w == known[1]);
            w = 0;
            pc[2] = 4 }

    /* the line */
    :: atomic { MAY_CUT(0) && pc[0] < END0 -> make_cut(0) }
    :: atomic { MAY_CUT(1) && pc[1] < END1 -> make_cut(1) }
    :: atomic { MAY_CUT(2) && pc[2] < END2 -> make_cut(2) }
    :: atomic { RUNS(0) && records[0] && ALL(cut) -> records[0] = false }
    :: atomic { RUNS(1) && records[1] && ALL(cut) -> records[1] = false }
    :: atomic { RUNS(2) && records[2] && ALL(cut) -> records[2] = false }
    :: atomic { RUNS(0) && ALL(cut) && !records[0] && !votes[0] -> close_and_vote(0) }
    :: atomic { RUNS(1) && ALL(cut) && !records[1] && !votes[1] -> close_and_vote(1) }
    :: atomic { RUNS(2) && ALL(cut) && !records[2] && !votes[2] -> close_and_vote(2) }
    :: atomic { RUNS(0) && ALL(votes) && !knows[0] -> learn(0) }
    :: atomic { RUNS(1) && ALL(votes) && !knows[1] -> learn(1) }
    :: atomic { RUNS(2) && ALL(votes) && !knows[2] -> learn(2) }

    /* failures */
    :: atomic { left > 0 && !dead[0] -> dead[0] = true; left-- }
    :: atomic { left > 0 && !dead[1] -> dead[1] = true; left-- }
    :: atomic { left > 0 && !dead[2] -> dead[2] = true; left-- }
    :: atomic { left > 0 && !ANY(dead) -> dead[0] = true; dead[1] = true; dead[2] = true; left-- }
    :: atomic { ANY(dead) -> repair() }

    :: OVER -> break
    od;
    atomic {
        for (i : 0 .. 8) {
            assert(len(wire[i]) == 0 && len(held[i]) == 0)
        }
    }
}

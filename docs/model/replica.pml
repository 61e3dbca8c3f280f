/* Replicas: a plane that has lost a process stands still and takes over the state of the other
 * plane, as a model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ranks, each with a replica in two planes, run a small program: CALLS calls of
 * ftkit_checkpoint(), between which the ranks of a plane exchange messages, and two collective calls
 * that write no set (steps): after call WAIT, and at the end.  A set is due each PERIOD calls.  At
 * most FAILURES processes die, at any moments; each is replaced.
 *
 * The state of a rank is the number of calls that it has made.  A set has the states of both ranks;
 * it is committed by a vote, whose result each process sees at a moment of its own.  A repair and a
 * step are one transition here: docs/model/log.pml has the inside of a repair.
 *
 * The rules are those of lib/recover/plan_planes.c and lib/set/clone.h:
 *
 *   - A plane is whole if it has lost no process and does not stand still.  If one plane is whole,
 *     the other one stands still.  A set is due at the call after the last one that any rank of the
 *     whole plane has begun.  There the ranks that stand still get the state of their siblings.
 *   - FLIPS: a bit flips in one process.  The replicas of a rank compare at each set, and return to the
 *     last one if they differ.  A plane that is left alone has not been compared since the line.  So
 *     nothing is cloned from it: the lost process returns to the last set.  No set has the bit.
 *   - If no plane is whole, all ranks return to the last set.
 *   - A rank that comes to a step, or is in one, writes no set: then the lost process, or the plane
 *     that stands still, returns to the last set, and the others wait in the step.
 *
 * (Rezaei and Mueller, DINO, sections 4 to 6: a clone of the sibling.)
 *
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices. */

#ifndef FAILURES
#define FAILURES 2
#endif
#ifndef CALLS
#define CALLS 5
#endif
#ifdef BREAK_COMPARED
#define FLIPS
#endif
#define PERIOD 2
#define WAIT 3

#define NP 4 /* processes: plane * 2 + rank */
#define RANK(x) ((x) & 1)
#define PLANE(x) ((x) >> 1)
#define MATE(x) ((x) ^ 1) /* the other rank of the plane */

mtype = { RUN, CALL, STILL, STEP, END };

mtype st[NP];
byte at[NP];    /* calls begun */
byte steps[NP]; /* steps passed */
byte next[NP];  /* the call that writes the next set */
byte com[NP];   /* the newest set that the process knows to be committed */
bool dead[NP];
bool bad[NP]; /* the process has a flipped bit */
byte flips = 1;

/* the set that is being voted on, or the last one */
byte set = 1, vote = 1; /* committed by any process; voted by all */
byte val[2], old_val[2]; /* states of the ranks in set `vote`, and in the one before */
byte due, old_due;       /* the next call that writes a set, as these two sets say */
byte passed;             /* steps that all ranks have passed */
bool stale;              /* a plane stands still */
bool raised;             /* a rank asks for a repair */
byte left = FAILURES;

byte i, top;
bool w0, w1, any;

#define LIVES(x) (!dead[x])
#define HEALTHY (!dead[0] && !dead[1] && !dead[2] && !dead[3] && !raised)

/* ---- the program ------------------------------------------------------------------------------ */

/* A process begins its next call when it has the message of the other rank of its plane. */
#define HAS_MESSAGE(x) (at[MATE(x)] > at[x] || (at[MATE(x)] == at[x] && (st[MATE(x)] == RUN || st[MATE(x)] == STEP)))
#define AT_STEP(x) (at[x] == CALLS || (at[x] == WAIT && steps[x] == 0))

inline begin_call(x)
{
    at[x]++;
    if
    :: at[x] >= next[x] -> st[x] = CALL
    :: else
    fi
}

/* A rank that repeats a step which all others have passed does not take part again. */
inline come_to_step(x)
{
    if
    :: steps[x] < passed -> steps[x]++
    :: else ->
        st[x] = STEP;
#ifndef BREAK_GIVE_UP
        raised = stale
#endif
    fi
}

#define IN_SET(x) (LIVES(x) && (st[x] == CALL || st[x] == STILL) && com[x] == vote)
#define IN_STEP(x) (LIVES(x) && st[x] == STEP)

inline pass_step()
{
    passed++;
    for (i : 0 .. 3) {
        steps[i]++;
        st[i] = (at[i] == CALLS -> END : RUN)
    }
    i = 0
}

/* ---- a set ------------------------------------------------------------------------------------ */

inline take_vote()
{
    old_val[0] = val[0];
    old_val[1] = val[1];
    old_due = due;
    top = 0;
    for (i : 0 .. 3) {
        if
        :: st[i] == CALL ->
            assert(top == 0 || top == at[i]); /* all ranks are at the same call */
            assert(!bad[i]);
            top = at[i];
            val[RANK(i)] = at[i]
        :: else
        fi
    }
    assert(top > 0);
    due = top + PERIOD;
    vote++;
    top = 0;
    i = 0
}

/* The process sees the result of the vote. */
inline see(x)
{
    com[x] = vote;
    bad[x] = (st[x] == STILL -> bad[x ^ 2] : bad[x]);
    set = vote;
    stale = false;
    at[x] = val[RANK(x)];
    next[x] = due;
    steps[x] = (at[x] > WAIT -> 1 : steps[x]);
    st[x] = RUN
}

/* ---- a repair --------------------------------------------------------------------------------- */

inline return_to_line(x)
{
    dead[x] = false;
    bad[x] = false;
    com[x] = set;
    at[x] = val[RANK(x)];
    next[x] = due;
    steps[x] = (at[x] > WAIT -> 1 : 0);
    st[x] = RUN
}

inline stand_still(x)
{
    dead[x] = false;
    com[x] = set;
    st[x] = STILL
}

/* A rank that has missed the commit knows it now, and goes on. */
inline stay(x)
{
    if
    :: com[x] != set ->
#ifndef BREAK_MISSED
        next[x] = due;
        st[x] = RUN;
#endif
        com[x] = set
    :: else
    fi
}

#ifdef BREAK_PENDING
#define GOES_ON(x) (LIVES(x))
#else
#define GOES_ON(x) (LIVES(x) && st[x] != STILL)
#endif

inline clone_at(x)
{
#ifdef BREAK_CLONE_AT
    next[x] = at[x] + 1;
#else
    next[x] = top + 1;
#endif
    if
    :: st[x] == CALL -> st[x] = RUN /* the set of this call comes at the next one */
    :: else
    fi
}

inline back_or_stay(x)
{
    if
    :: dead[x] || st[x] == STILL -> return_to_line(x)
    :: else -> stay(x)
    fi
}

/* One plane, from process `whole` on, goes on, and the other one does not. */
inline one_plane(whole, other)
{
    stay(whole);
    stay(whole + 1);
#ifdef BREAK_IN_STEP
    if
    :: false -> skip
#elif defined(FLIPS) && !defined(BREAK_COMPARED)
    if
    :: true ->
        back_or_stay(other);
        back_or_stay(other + 1);
        stale = false
#else
    if
    :: st[whole] == STEP || st[whole + 1] == STEP || st[whole] == END || st[whole + 1] == END ->
        back_or_stay(other);
        back_or_stay(other + 1);
        stale = false
#endif
    :: else ->
        top = (at[whole] > at[whole + 1] -> at[whole] : at[whole + 1]);
        clone_at(whole);
        clone_at(whole + 1);
#ifndef BREAK_SCHEDULE
        due = top + 1; /* also for ranks that return to this line later */
#endif
        top = 0;
        stand_still(other);
        stand_still(other + 1);
        stale = true
    fi
}

inline repair()
{
    raised = false;
    any = false;
    for (i : 0 .. 3) {
        any = any || (LIVES(i) && com[i] == vote)
    }
    if
    :: !any -> /* no process is left that has seen the vote: the set is not committed */
        vote--;
        set = vote;
        val[0] = old_val[0];
        val[1] = old_val[1];
        due = old_due
    :: else -> set = vote
    fi;
    w0 = GOES_ON(0) && GOES_ON(1);
    w1 = GOES_ON(2) && GOES_ON(3);
    if
    :: w0 && !w1 -> one_plane(0, 2)
    :: w1 && !w0 -> one_plane(2, 0)
    :: w0 && w1 ->
        for (i : 0 .. 3) {
            stay(i)
        }
    :: else ->
        for (i : 0 .. 3) {
            return_to_line(i)
        }
        passed = (val[0] > WAIT -> 1 : 0);
        stale = false
    fi;
    i = 0; w0 = false; w1 = false; any = false
}

#define PROCESS(x)                                                                                 \
    :: atomic { HEALTHY && st[x] == RUN && !AT_STEP(x) && HAS_MESSAGE(x) -> begin_call(x) }        \
    :: atomic { HEALTHY && st[x] == RUN && AT_STEP(x) -> come_to_step(x) }                         \
    :: atomic { LIVES(x) && !raised && com[x] != vote -> see(x) }                                  \
    :: atomic { left > 0 && LIVES(x) && !OVER -> left--; dead[x] = true }

/* The replicas of rank x differ: they return to the line. */
#define DIFFERS(x) (!stale && bad[x] != bad[(x) + 2])
inline compare(x)
{
    if
    :: DIFFERS(x) ->
        return_to_line(x);
        return_to_line(x + 2)
    :: else
    fi
}

#ifdef FLIPS
#define FLIP(x)                                                                                    \
    :: atomic { flips > 0 && LIVES(x) && st[x] != STILL && st[x] != END && com[x] == vote ->      \
           flips--;                                                                                \
           bad[x] = true }
#else
#define FLIP(x)
#endif

#define OVER (st[0] == END && st[1] == END && st[2] == END && st[3] == END)

active proctype world()
{
    atomic {
        for (i : 0 .. 3) {
            st[i] = RUN;
            at[i] = 1;
            next[i] = 1 + PERIOD;
            com[i] = 1
        }
        val[0] = 1;
        val[1] = 1;
        due = 1 + PERIOD;
        i = 0
    }
    do
    PROCESS(0)
    PROCESS(1)
    PROCESS(2)
    PROCESS(3)
    FLIP(0)
    FLIP(1)
    FLIP(2)
    FLIP(3)
    :: atomic { HEALTHY && IN_SET(0) && IN_SET(1) && IN_SET(2) && IN_SET(3) ->
           if
           :: DIFFERS(0) || DIFFERS(1) ->
               compare(0);
               compare(1)
           :: else -> take_vote()
           fi }
    :: atomic { HEALTHY && IN_STEP(0) && IN_STEP(1) && IN_STEP(2) && IN_STEP(3) -> pass_step() }
    :: atomic { !HEALTHY -> repair() }
    :: OVER -> break
    od
}

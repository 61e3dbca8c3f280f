/* Memory that the ranks of a node map from each other, as a model for spin (lib/log/win/near.c and
 * meet.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All ranks are one team.  Each one asks the others for their memory, stores into it, and meets the
 * others by words in this memory.  At most FAILURES failures happen at any moments; a new process
 * takes the place of the lost one, with another file.  After each failure all ranks go back.
 *
 * A store must not come to memory that its rank has still to restore, and nobody may leave a
 * meeting that another rank has not begun.  All ranks end.
 *
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices. */

#ifndef FAILURES
#define FAILURES 1
#endif

#define NR 3
#define LAST 4 /* the first meeting behind an agreement has number 2 */

/* Of a rank: it takes part in a repair, has its memory again, has agreed on meetings. */
#define STOPPED 0
#define RESTORED 1
#define AGREED 2

byte failures;
byte epoch[NR];  /* failures that the rank has gone back for */
byte phase[NR];  /* of the process of the rank */
byte file[NR];   /* of the process; the file of a lost one has a lower number */
byte map[9];     /* by rank and other rank: the file that the rank has mapped, and 1; 0: none */
bool asked[9];   /* the question has no answer */
byte word[24];   /* by rank, file and number of the meeting */
byte number[NR]; /* the meeting that the rank has begun */
bool over[NR];
bool stored[9]; /* in this meeting: an endless loop of stores would hide a hang */

#define AT(r, o) ((r) * NR + (o))
#ifndef BREAK_TWO_WORDS
#define WORD(r, f, n) word[((r) * 4 + (f)) * 2 + (n) % 2]
#else
#define WORD(r, f, n) word[((r) * 4 + (f)) * 2]
#endif
#define A ((r + 1) % NR)
#define B ((r + 2) % NR)

/* What r has mapped of another rank, the old file of a lost one included. */
#define HAS(o) (map[AT(r, o)] > 0)
#define SEES(o, n) (HAS(o) && WORD(o, map[AT(r, o)] - 1, n) == n)

inline forget(r)
{
#ifndef BREAK_FORGET
    map[AT(r, A)] = 0;
    map[AT(r, B)] = 0;
#endif
    asked[AT(r, A)] = false;
    asked[AT(r, B)] = false;
    /* messages of before a repair are gone */
    asked[AT(A, r)] = false;
    asked[AT(B, r)] = false
}

inline may_store(r)
{
    stored[AT(r, A)] = false;
    stored[AT(r, B)] = false
}

/* A rank notices a failure, whatever it does. */
inline stop(r)
{
    epoch[r] = failures;
    phase[r] = STOPPED;
    over[r] = false;
    may_store(r);
    forget(r)
}

inline restore(r)
{
#ifndef BREAK_RESET
    WORD(r, file[r], 0) = 0;
    WORD(r, file[r], 1) = 0;
#endif
    number[r] = 1;
    phase[r] = RESTORED
}

/* The store of r goes into the file that it has mapped.  A rank that has not noticed the failure may
 * store into memory of before the restore. */
inline store(r, o)
{
    stored[AT(r, o)] = true;
    if
    :: map[AT(r, o)] - 1 == file[o] ->
        assert((epoch[o] == epoch[r] && phase[o] != STOPPED)
               || (epoch[o] > epoch[r] && phase[o] == STOPPED))
    :: else -> assert(epoch[r] < failures) /* of a lost process */
    fi
}

inline begin(r)
{
    may_store(r);
    number[r]++;
    WORD(r, file[r], number[r]) = number[r]
}

/* All are in this meeting, or behind it: also those whose file r does not look at. */
inline leave(r)
{
    assert(epoch[r] < failures
           || (epoch[A] == epoch[r] && number[A] >= number[r] && epoch[B] == epoch[r]
               && number[B] >= number[r]));
    if
    :: number[r] < LAST -> begin(r)
    :: else -> over[r] = true
    fi
}

/* All have come to the repair: no rank is in the step that the failure has interrupted. */
#ifndef BREAK_ALL
#define MAY_RESTORE (epoch[A] == failures && epoch[B] == failures)
#else
#define MAY_RESTORE true
#endif
#ifndef BREAK_OFFER
#define MAY_ANSWER(o) (epoch[r] == epoch[o] && phase[r] != STOPPED)
#else
#define MAY_ANSWER(o) true
#endif
/* In the alltoall of a fence all say that they have mapped all. */
#define IS_READY(x) \
    (epoch[x] == failures && phase[x] != STOPPED && map[AT(x, (x + 1) % NR)] > 0 \
        && map[AT(x, (x + 2) % NR)] > 0)

proctype rank(byte r)
{
    do
    :: atomic { epoch[r] < failures -> stop(r) }
    :: atomic { epoch[r] == failures && phase[r] == STOPPED && MAY_RESTORE -> restore(r) }
    /* as an origin */
    :: atomic { phase[r] != STOPPED && !HAS(A) && !asked[AT(r, A)] -> asked[AT(r, A)] = true }
    :: atomic { phase[r] != STOPPED && !HAS(B) && !asked[AT(r, B)] -> asked[AT(r, B)] = true }
    :: atomic { phase[r] != STOPPED && HAS(A) && !stored[AT(r, A)] -> store(r, A) }
    :: atomic { phase[r] != STOPPED && HAS(B) && !stored[AT(r, B)] -> store(r, B) }
    /* as a target */
    :: atomic { asked[AT(A, r)] && MAY_ANSWER(A) ->
        asked[AT(A, r)] = false;
        map[AT(A, r)] = file[r] + 1 }
    :: atomic { asked[AT(B, r)] && MAY_ANSWER(B) ->
        asked[AT(B, r)] = false;
        map[AT(B, r)] = file[r] + 1 }
    /* meetings */
    :: atomic { phase[r] == RESTORED && IS_READY(r) && IS_READY(A) && IS_READY(B) ->
        phase[r] = AGREED;
        begin(r) }
    :: atomic { phase[r] == AGREED && !over[r] && SEES(A, number[r]) && SEES(B, number[r]) ->
        leave(r) }
    :: atomic { over[0] && over[1] && over[2] -> break }
    od
}

/* A process ends, and a new one has its rank. */
inline die(r)
{
    failures++;
    file[r]++;
    number[r] = 0;
    map[AT(r, A)] = 0;
    map[AT(r, B)] = 0;
    stop(r)
}

active proctype world()
{
    atomic {
        phase[0] = RESTORED;
        phase[1] = RESTORED;
        phase[2] = RESTORED;
        number[0] = 1;
        number[1] = 1;
        number[2] = 1;
        run rank(0);
        run rank(1);
        run rank(2)
    }
    do
    :: atomic { failures < FAILURES && !(over[0] && over[1] && over[2]) ->
        if
        :: die(0)
        :: die(1)
        :: die(2)
        fi }
    :: break
    od
}

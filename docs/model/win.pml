/* Windows: one-sided communication in a job that loses a rank, as a model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks 0 and 1 are origins, rank 2 is their target.  At most FAILURES failures happen at any
 * moments.  A repair is one step here; docs/model/log.pml has its inside.
 *
 * Without LOCKS each rank is a team.  The origins change the memory of the target in an epoch of
 * post, start, complete and wait, and then in one of fences.  The operations do not commute, and
 * what rank 0 puts by a fence depends on a result.  So the memory in the end shows each order.
 *
 * With LOCKS all ranks are one team, and all of them go back.  Each origin takes a lock, reads the
 * memory, and writes one more.
 *
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices. */

#ifndef FAILURES
#define FAILURES 1
#endif

#define NR 3
#define TARGET 2
#define NONE 3

byte mem; /* of the target; 0 at the line */
byte pc[NR];
byte left = FAILURES;
byte i, j, n, x;

#ifndef LOCKS

/* ---- channels: from, to ----------------------------------------------------------------- */

#define POST(o) (o)      /* the target to origin o */
#define FIRST(o) (2 + (o)) /* queues of origin o */
#define REPLY 4          /* the target to rank 0 */
#define COUNT(o) (5 + (o)) /* of a fence, by origin o */
#define TOLD(o) (7 + (o)) /* ... by the target */
#define NC 9
#define FROM(c) ((c) < 2 || (c) == REPLY || (c) >= 7 -> TARGET : ((c) < 4 -> (c) - 2 : (c) - 5))
#define TO(c) ((c) < 2 -> (c) : ((c) == REPLY -> 0 : ((c) >= 7 -> (c) - 7 : TARGET)))

typedef msgs {
    byte v[3]; /* numbers 1, 2 */
}
chan wire[NC] = [3] of { byte };
msgs value[NC];       /* the log of the sender */
byte sent[NC];        /* numbers since the line */
byte suppress[NC];    /* the receiver has the messages up to here */

bool exposed, served[2], had[2];
byte queue[2], result;

inline send(c, val)
{
    sent[c]++;
    n = sent[c];
    assert(n < 3);
    if
    :: n <= suppress[c] -> assert(value[c].v[n] == val) /* the replay check */
    :: else -> value[c].v[n] = val
    fi;
    if
#ifndef BREAK_SUPPRESS
    :: n <= suppress[c] -> skip
    :: else -> wire[c]!val
#else
    :: wire[c]!val
#endif
    fi;
    n = 0
}

#define HAS(c) (len(wire[c]) > 0)

inline apply(o)
{
    mem = (mem * 3 + queue[o]) % 251;
    queue[o] = 0
}

inline take(o)
{
    wire[FIRST(o)]?x;
    had[o] = true;
    queue[o] = x;
    x = 0
}

/* In the order of ranks: rank 1 only behind rank 0. */
#ifndef BREAK_ORDER
#define MAY_SERVE(o) (had[o] && !served[o] && ((o) == 0 || served[0]))
#else
#define MAY_SERVE(o) (had[o] && !served[o])
#endif

inline serve(o)
{
    if
    :: (o) == 0 && pc[TARGET] == 1 -> send(REPLY, mem)
    :: else
    fi;
    apply(o);
    served[o] = true
}

inline forget()
{
#ifndef BREAK_FORGET
    exposed = false;
#endif
    for (j : 0 .. 1) {
        served[j] = false;
        had[j] = false;
        queue[j] = 0
    }
    j = 0
}

#define ORIGIN_END 4
#define TARGET_END 4
#define OVER (pc[0] == ORIGIN_END && pc[1] == ORIGIN_END && pc[TARGET] == TARGET_END)

/* Rank r dies, and its replacement begins at the line.  The others send again what it has had. */
inline die(r)
{
    left--;
    pc[r] = 0;
    if
    :: r == TARGET ->
        mem = 0;
        forget()
    :: else
    fi;
    if
    :: r == 0 -> result = 0
    :: else
    fi;
    for (i : 0 .. NC - 1) {
        if
        :: FROM(i) == r ->
            if
            :: sent[i] > suppress[i] -> suppress[i] = sent[i]
            :: else
            fi;
            sent[i] = 0
        :: TO(i) == r ->
            do
            :: len(wire[i]) > 0 -> wire[i]?x
            :: else -> break
            od;
            suppress[i] = sent[i]; /* a sender that replays sends the others again */
#ifndef BREAK_LOG
            for (j : 1 .. sent[i]) {
                wire[i]!value[i].v[j]
            }
#endif
        :: else
        fi
    }
    i = 0;
    j = 0;
    x = 0
}

active proctype ranks()
{
    do
    /* the origins: complete, then a fence */
    :: atomic { pc[0] == 0 && HAS(POST(0)) -> wire[POST(0)]?x; send(FIRST(0), 1); x = 0; pc[0] = 1 }
    :: atomic { pc[0] == 1 && HAS(REPLY) -> wire[REPLY]?result; assert(result == 0); pc[0] = 2 }
    :: atomic { pc[1] == 0 && HAS(POST(1)) -> wire[POST(1)]?x; send(FIRST(1), 2); x = 0; pc[1] = 2 }
    :: atomic { pc[0] == 2 -> send(COUNT(0), 1); pc[0] = 3 }
    :: atomic { pc[1] == 2 -> send(COUNT(1), 1); pc[1] = 3 }
    :: atomic { pc[0] == 3 && HAS(TOLD(0)) -> wire[TOLD(0)]?x; send(FIRST(0), 3 + result); x = 0; pc[0] = 4 }
    :: atomic { pc[1] == 3 && HAS(TOLD(1)) -> wire[TOLD(1)]?x; send(FIRST(1), 5); x = 0; pc[1] = 4 }
    /* the target: post, wait, a fence */
    :: atomic { pc[TARGET] == 0 ->
        assert(!exposed);
        exposed = true;
        send(POST(0), 1);
        send(POST(1), 1);
        pc[TARGET] = 1 }
    :: atomic { pc[TARGET] == 1 && !had[0] && HAS(FIRST(0)) -> take(0) }
    :: atomic { pc[TARGET] == 1 && !had[1] && HAS(FIRST(1)) -> take(1) }
    :: atomic { pc[TARGET] == 1 && MAY_SERVE(0) -> serve(0) }
    :: atomic { pc[TARGET] == 1 && MAY_SERVE(1) -> serve(1) }
    :: atomic { pc[TARGET] == 1 && served[0] && served[1] ->
        forget();
        exposed = false;
        send(TOLD(0), 1);
        send(TOLD(1), 1);
        pc[TARGET] = 2 }
    :: atomic { pc[TARGET] == 2 && HAS(COUNT(0)) && HAS(COUNT(1)) ->
        wire[COUNT(0)]?x;
        wire[COUNT(1)]?x;
        x = 0;
        pc[TARGET] = 3 }
    :: atomic { pc[TARGET] == 3 && !had[0] && HAS(FIRST(0)) -> take(0) }
    :: atomic { pc[TARGET] == 3 && !had[1] && HAS(FIRST(1)) -> take(1) }
#ifndef BREAK_COUNTS
    :: atomic { pc[TARGET] == 3 && had[0] && had[1] ->
#else
    :: atomic { pc[TARGET] == 3 && (had[0] || had[1]) -> /* what has come */
#endif
        if
        :: had[0] -> apply(0)
        :: else
        fi;
        if
        :: had[1] -> apply(1)
        :: else
        fi;
        forget();
        pc[TARGET] = TARGET_END }
    /* failures */
    :: atomic { left > 0 && !OVER -> die(0) }
    :: atomic { left > 0 && !OVER -> die(1) }
    :: atomic { left > 0 && !OVER -> die(TARGET) }
    :: OVER -> break
    od;
    assert(mem == 59)
}

#else

/* ---- locks: control messages with the epoch of the job --------------------------------------- */

mtype = { LOCK, GET, LAST, GRANT, VALUE, DONE };
chan in[2] = [3] of { mtype, byte, byte };  /* of the target, by origin: kind, epoch, value */
chan out[2] = [3] of { mtype, byte, byte }; /* of an origin */
byte epoch;
byte holder = NONE, next = NONE; /* of the lock; the one that waits */
bool in_set_up;                  /* the target is a replacement that replays set-up */
byte seen[2];                    /* by an origin */
mtype kind;
byte when;

#define ORIGIN_END 6
#define OVER (pc[0] == ORIGIN_END && pc[1] == ORIGIN_END && !in_set_up)

inline grant(o)
{
    holder = o;
    out[o]!GRANT, epoch, 0
}

inline handle(o)
{
    in[o]?kind, when, x;
    if
#ifndef BREAK_STALE
    :: when != epoch -> skip /* of a communicator that is gone */
    :: else ->
#else
    :: true ->
#endif
        if
        :: kind == LOCK ->
            if
#ifndef BREAK_QUEUE
            :: holder != NONE -> next = o
            :: else -> grant(o)
#else
            :: true -> grant(o)
#endif
            fi
        :: kind == GET -> out[o]!VALUE, epoch, mem
        :: kind == LAST ->
            mem = x;
            holder = NONE;
            out[o]!DONE, epoch, 0;
            if
            :: next != NONE -> grant(next); next = NONE
            :: else
            fi
        fi
    fi;
    when = 0;
    x = 0;
    kind = 0
}

/* An answer of this epoch. */
inline answer(o, what, then)
{
    out[o]?kind, when, x;
    if
    :: when != epoch -> skip
    :: else ->
        assert(kind == what);
        if
        :: kind == VALUE -> seen[o] = x
        :: else
        fi;
        pc[o] = then
    fi;
    when = 0;
    x = 0;
    kind = 0
}

inline die(r)
{
    left--;
    epoch++;
    pc[0] = 0;
    pc[1] = 0;
    seen[0] = 0;
    seen[1] = 0;
#ifndef BREAK_RESET
    holder = NONE;
    next = NONE;
#endif
    mem = 0;
    in_set_up = (r == TARGET)
}

#ifndef BREAK_SET_UP
#define SERVES (!in_set_up)
#else
#define SERVES true
#endif

active proctype ranks()
{
    do
    :: atomic { pc[0] == 0 -> in[0]!LOCK, epoch, 0; pc[0] = 1 }
    :: atomic { pc[0] == 1 && len(out[0]) > 0 -> answer(0, GRANT, 2) }
    :: atomic { pc[0] == 2 -> in[0]!GET, epoch, 0; pc[0] = 3 }
    :: atomic { pc[0] == 3 && len(out[0]) > 0 -> answer(0, VALUE, 4) }
#ifndef BREAK_ANSWER
    :: atomic { pc[0] == 4 -> in[0]!LAST, epoch, seen[0] + 1; pc[0] = 5 }
#else
    :: atomic { pc[0] == 4 -> in[0]!LAST, epoch, seen[0] + 1; pc[0] = ORIGIN_END }
#endif
    :: atomic { pc[0] == 5 && len(out[0]) > 0 -> answer(0, DONE, ORIGIN_END) }
    :: atomic { pc[1] == 0 -> in[1]!LOCK, epoch, 0; pc[1] = 1 }
    :: atomic { pc[1] == 1 && len(out[1]) > 0 -> answer(1, GRANT, 2) }
    :: atomic { pc[1] == 2 -> in[1]!GET, epoch, 0; pc[1] = 3 }
    :: atomic { pc[1] == 3 && len(out[1]) > 0 -> answer(1, VALUE, 4) }
    :: atomic { pc[1] == 4 -> in[1]!LAST, epoch, seen[1] + 1; pc[1] = 5 }
    :: atomic { pc[1] == 5 && len(out[1]) > 0 -> answer(1, DONE, ORIGIN_END) }
    :: atomic { len(in[0]) > 0 && SERVES -> handle(0) }
    :: atomic { len(in[1]) > 0 && SERVES -> handle(1) }
    :: atomic { in_set_up -> mem = 0; in_set_up = false } /* ftkit_recover restores the memory */
    :: atomic { left > 0 && !OVER -> die(0) }
    :: atomic { left > 0 && !OVER -> die(1) }
    :: atomic { left > 0 && !OVER -> die(TARGET) }
    :: OVER -> break
    od;
    assert(mem == 2)
}

#endif

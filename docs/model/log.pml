/* The message log: what happens at a failure, as a model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Three ranks run a small program (below) that has what is hard: a message in flight across
 * the line between teams and inside one, two receives that are pending at once and complete
 * in any order, wildcard receives whose outcome goes into what is sent, and a collective
 * that does not complete at the same moment everywhere.  Two failures happen at any moments,
 * also inside the repair of the first.  TEAMS is 2 (ranks 0 and 1 in one) or 3.  SILENT is a mask of
 * the teams that keep no messages.
 *
 * What is on the wire has no number: receivers count.  The field n of a message is a ghost,
 * to see that the count is right: no message is lost, doubled or out of order.  The end of
 * a run is reached by all ranks or spin finds an invalid end state: every loop here is
 * bounded by the failures that are left, so that is liveness, too.
 *
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices.
 *
 * The steps of a repair are those of lib/recover and lib/log:
 *     freeze, quiesce, roll back, suppress, resend; then all ranks go on. */

#ifndef TEAMS
#define TEAMS 2
#endif
#ifndef FAILURES
#define FAILURES 2
#endif

#define NR 3
#define NM 4 /* numbers 1..3 on a channel; bit n of a mask */
#define BIT(n) (1 << (n))
#define S(i, j) ((i) * NR + (j)) /* the channel from i to j */
#if TEAMS == 2
#define TEAM(r) ((r) / 2)
#else
#define TEAM(r) (r)
#endif
#define INTER(i, j) (TEAM(i) != TEAM(j))
/* Bit t: team t is silent. */
#ifndef SILENT
#define SILENT 0
#endif
#define IS_SILENT(r) ((SILENT >> TEAM(r)) & 1)
#define KEEPS(i, j) (INTER(i, j) && !IS_SILENT(i))

typedef msgs {
    byte v[NM];
}

/* ---- a rank -----------------------------------------------------------------------------*/
byte pc[NR];
byte sent[NR * NR];        /* counted by the sender */
byte got[NR * NR];         /* delivered, counted by the receiver */
chan wire[NR * NR] = [4] of { byte, byte }; /* n, value */
chan unexp[NR * NR] = [4] of { byte, byte }; /* drained: receives look here first */
byte keeps[NR * NR];       /* log of the sender: mask of numbers ... */
msgs value[NR * NR];       /* ... and what they carry */
byte suppress[NR * NR];    /* mask of what the receiver has had */
msgs had[NR * NR];         /* ghost: what was delivered */

/* the pair of receives of rank 2: matched in order, completed in any */
byte slot_n[2], slot_v[2];
bool slot_done[2];

/* outcomes of the wildcard receives of rank 0: 0 none, else source + 1 */
byte det[2];    /* with rank 0: of this run ... */
byte plan[2];   /* ... and of the one before, to be repeated */
byte stored[2]; /* in the memory of rank 2 */
byte first;     /* source + 1 of the first one: the state of rank 0 */

/* the collective: contribution + 1, result + 1 */
byte input[NR], result[NR];
byte ghost_result;

/* ---- the line ---------------------------------------------------------------------------*/
byte line_pc[NR];
byte line_sent[NR * NR], line_got[NR * NR], line_keeps[NR * NR];
byte line_held[NR * NR]; /* how many were drained, all behind line_got */
bool at_line[NR];
bool line_taken;

/* ---- failures and repair ------------------------------------------------------------------*/
bool dead[NR];
bool back[NR];   /* falls back in the repair that is under way */
bool frozen;
byte left = FAILURES;
bool over;

#define ANY_DEAD (dead[0] || dead[1] || dead[2])
#define RUNS(r) (!frozen && !dead[r])

/* A message is counted: it has to be the next one. */
inline deliver(i, j, n, val)
{
    got[S(i, j)]++;
    assert(n == got[S(i, j)]);
    had[S(i, j)].v[n] = val;
}

/* Log, count, and put on the wire unless the receiver has had it. */
inline send(i, j, val)
{
    sent[S(i, j)]++;
    m = sent[S(i, j)];
#ifndef BREAK_LOG
    if
    :: KEEPS(i, j) ->
#ifdef BREAK_LOG_AGAIN
        if
        :: suppress[S(i, j)] & BIT(m)
        :: else -> keeps[S(i, j)] = keeps[S(i, j)] | BIT(m)
        fi;
#else
        keeps[S(i, j)] = keeps[S(i, j)] | BIT(m);
#endif
        value[S(i, j)].v[m] = val
    :: else
    fi;
#endif
    if
#ifndef BREAK_SUPPRESS
    :: suppress[S(i, j)] & BIT(m) ->
        /* the replay check: the same bytes as before */
        assert(dead[j] || had[S(i, j)].v[m] == 0 || had[S(i, j)].v[m] == val)
#endif
    :: else -> wire[S(i, j)]!m, val
    fi;
    m = 0
}

#define HAS(i, j) (len(unexp[S(i, j)]) + len(wire[S(i, j)]) > 0)

inline take(i, j)
{
    if
    :: len(unexp[S(i, j)]) > 0 -> unexp[S(i, j)]?m, w
    :: len(unexp[S(i, j)]) == 0 -> wire[S(i, j)]?m, w
    fi
}

inline receive(i, j)
{
    take(i, j);
    deliver(i, j, m, w);
    m = 0;
    w = 0
}

/* Determinants are safe before anybody outside can depend on them: who keeps them has
 * answered, or this waits for the repair. */
#define KEEPER_LIVES (!dead[2])
inline store_determinants()
{
#ifdef BREAK_DETERMINANTS
    skip
#else
    stored[0] = (det[0] != 0 -> det[0] : plan[0]);
    stored[1] = (det[1] != 0 -> det[1] : plan[1])
#endif
}

/* A wildcard receive: what is to be repeated says which message, else any may match. */
#ifdef BREAK_FETCH
#define WANTED(k) stored[k] /* asked for when it is needed, and not kept in two places */
#else
#define WANTED(k) plan[k]
#endif
#define CAN_MATCH_1(k) (HAS(1, 0) && got[S(1, 0)] < 2 && (WANTED(k) == 0 || WANTED(k) == 2))
#define CAN_MATCH_2(k) (HAS(2, 0) && got[S(2, 0)] < 1 && (WANTED(k) == 0 || WANTED(k) == 3))

inline receive_any(k)
{
    if
    :: CAN_MATCH_1(k) ->
        receive(1, 0);
        det[k] = 2
    :: CAN_MATCH_2(k) ->
        receive(2, 0);
        det[k] = 3
    fi
}

/* ---- the collective: a sum --------------------------------------------------------------*/

#define CONTRIBUTION(r) ((r) == 0 -> first : 1)

inline enter_collective(r)
{
    input[r] = 1 + CONTRIBUTION(r)
}

#define ALL_IN (input[0] != 0 && input[1] != 0 && input[2] != 0)
#define SOMEBODY_HAS ((result[0] != 0 && !dead[0]) || (result[1] != 0 && !dead[1]) || \
                      (result[2] != 0 && !dead[2]))
#define CAN_COMPLETE (ALL_IN || SOMEBODY_HAS)

inline complete_collective(r)
{
    if
    :: result[0] != 0 && !dead[0] -> result[r] = result[0]
    :: result[1] != 0 && !dead[1] -> result[r] = result[1]
    :: result[2] != 0 && !dead[2] -> result[r] = result[2]
    :: else -> result[r] = 1 + input[0] + input[1] + input[2]
    fi;
    assert(ghost_result == 0 || ghost_result == result[r]);
    ghost_result = result[r]
}

/* ---- the line: all ranks at once ----------------------------------------------------------
 * The commit is atomic here: two slots and votes see to that (docs/design/set.md). */

inline drain_at_line(i, j)
{
    do
    :: !KEEPS(i, j) && len(wire[S(i, j)]) > 0 ->
#ifdef BREAK_DRAIN_AT_LINE
        break
#else
        wire[S(i, j)]?m, w;
        unexp[S(i, j)]!m, w
#endif
    :: else -> break
    od;
    m = 0;
    w = 0
}

inline forget(i, j)
{
#ifdef BREAK_FORGET
    keeps[S(i, j)] = 0;
#else
    m = 1;
    do
    :: m <= got[S(i, j)] ->
        keeps[S(i, j)] = keeps[S(i, j)] & ~BIT(m);
        m++
    :: else -> break
    od;
    m = 0;
#endif
    line_sent[S(i, j)] = sent[S(i, j)];
    line_got[S(i, j)] = got[S(i, j)];
#ifdef BREAK_LOG_IN_SEGMENT
    line_keeps[S(i, j)] = 0;
#else
    line_keeps[S(i, j)] = keeps[S(i, j)];
#endif
    line_held[S(i, j)] = len(unexp[S(i, j)])
}

inline each_pair_at_line()
{
    i = 0;
    do
    :: i < NR ->
        j = 0;
        do
        :: j < NR ->
            if
            :: i != j ->
                drain_at_line(i, j);
                forget(i, j)
            :: else
            fi;
            j++
        :: else -> break
        od;
        i++
    :: else -> break
    od;
    i = 0;
    j = 0
}

inline commit_line()
{
    each_pair_at_line();
    line_taken = true;
    pc[0]++;
    pc[1]++;
    pc[2]++;
    line_pc[0] = pc[0];
    line_pc[1] = pc[1];
    line_pc[2] = pc[2];
    at_line[0] = false;
    at_line[1] = false;
    at_line[2] = false
}

active proctype line()
{
    byte i, j, m, w;
    do
    :: atomic {
        !frozen && !ANY_DEAD && at_line[0] && at_line[1] && at_line[2] -> commit_line()
    }
    :: over -> break
    od
}

/* ---- the program ------------------------------------------------------------------------*/

active proctype rank0()
{
    byte m, w;
    do
    :: atomic { RUNS(0) && pc[0] == 0 -> send(0, 2, 1); pc[0]++ }
    :: atomic { RUNS(0) && pc[0] == 1 && !at_line[0] -> at_line[0] = true }
    :: atomic { RUNS(0) && pc[0] == 2 && HAS(1, 0) -> receive(1, 0); pc[0]++ }
    :: atomic { RUNS(0) && pc[0] == 3 && (CAN_MATCH_1(0) || CAN_MATCH_2(0)) ->
        receive_any(0);
        first = det[0];
        pc[0]++ }
    :: atomic { RUNS(0) && pc[0] == 4 && (CAN_MATCH_1(1) || CAN_MATCH_2(1)) ->
        receive_any(1);
        pc[0]++ }
#ifdef BREAK_STORE_FIRST
    :: atomic { RUNS(0) && pc[0] == 5 -> send(0, 2, first); pc[0] = 15 }
    :: atomic { RUNS(0) && pc[0] == 15 && KEEPER_LIVES -> store_determinants(); pc[0] = 6 }
#else
    :: atomic { RUNS(0) && pc[0] == 5 && KEEPER_LIVES -> store_determinants(); send(0, 2, first); pc[0]++ }
#endif
    :: atomic { RUNS(0) && pc[0] == 6 -> send(0, 2, 2 + first); pc[0]++ }
    :: atomic { RUNS(0) && pc[0] == 7 && KEEPER_LIVES -> store_determinants(); enter_collective(0); pc[0]++ }
    :: atomic { RUNS(0) && pc[0] == 8 && CAN_COMPLETE -> complete_collective(0); pc[0]++ }
    :: pc[0] == 9 && over -> break
    od
}

active proctype rank1()
{
    byte m, w;
    do
    :: atomic { RUNS(1) && pc[1] == 0 -> send(1, 0, 1); pc[1]++ }
    :: atomic { RUNS(1) && pc[1] == 1 && !at_line[1] -> at_line[1] = true }
    :: atomic { RUNS(1) && pc[1] == 2 -> send(1, 0, 1); pc[1]++ }
    :: atomic { RUNS(1) && pc[1] == 3 -> enter_collective(1); pc[1]++ }
    :: atomic { RUNS(1) && pc[1] == 4 && CAN_COMPLETE -> complete_collective(1); pc[1]++ }
    :: pc[1] == 5 && over -> break
    od
}

/* Slot k is matched with the message that comes next, if slot 0 is matched or done. */
#define FREE(k) (slot_n[k] == 0 && !slot_done[k])

active proctype rank2()
{
    byte m, w;
    do
    :: atomic { RUNS(2) && pc[2] == 0 && !at_line[2] -> at_line[2] = true }
    :: atomic { RUNS(2) && pc[2] == 1 && HAS(0, 2) -> receive(0, 2); pc[2]++ }
    :: atomic { RUNS(2) && pc[2] == 2 -> send(2, 0, 1); pc[2]++ }
    :: atomic { RUNS(2) && pc[2] == 3 && HAS(0, 2) && FREE(0) ->
        slot_done[0] = len(unexp[S(0, 2)]) > 0; /* that is here as a whole */
        take(0, 2);
        assert(m == got[S(0, 2)] + 1);
        slot_n[0] = m;
        slot_v[0] = w;
        m = 0;
        w = 0 }
    :: atomic { RUNS(2) && pc[2] == 3 && HAS(0, 2) && !FREE(0) && FREE(1) ->
        slot_done[1] = len(unexp[S(0, 2)]) > 0; /* that is here as a whole */
        take(0, 2);
        assert(m == got[S(0, 2)] + 2);
        slot_n[1] = m;
        slot_v[1] = w;
        m = 0;
        w = 0 }
    :: atomic { RUNS(2) && pc[2] == 3 && slot_n[0] != 0 && !slot_done[0] -> slot_done[0] = true }
    :: atomic { RUNS(2) && pc[2] == 3 && slot_n[1] != 0 && !slot_done[1] -> slot_done[1] = true }
    :: atomic { RUNS(2) && pc[2] == 3 && slot_done[0] && slot_done[1] ->
        deliver(0, 2, slot_n[0], slot_v[0]);
        deliver(0, 2, slot_n[1], slot_v[1]);
        slot_n[0] = 0;
        slot_n[1] = 0;
        slot_done[0] = false;
        slot_done[1] = false;
        slot_v[0] = 0;
        slot_v[1] = 0;
        pc[2]++ }
    :: atomic { RUNS(2) && pc[2] == 4 -> enter_collective(2); pc[2]++ }
    :: atomic { RUNS(2) && pc[2] == 5 && CAN_COMPLETE -> complete_collective(2); pc[2]++ }
    :: pc[2] == 6 && over -> break
    od
}

/* ---- failures ---------------------------------------------------------------------------*/

/* What is in the memory of a process goes with it. */
inline die(r)
{
    dead[r] = true;
    left--;
    if
    :: r == 0 ->
        plan[0] = 0;
        plan[1] = 0
    :: r == 2 ->
        stored[0] = 0;
        stored[1] = 0
    :: else
    fi
}

active proctype failures()
{
    do
    :: atomic { !over && left > 0 && !dead[0] -> die(0) }
    :: atomic { !over && left > 0 && !dead[1] -> die(1) }
    :: atomic { !over && left > 0 && !dead[2] -> die(2) }
    :: over -> break
    od
}

/* ---- the repair ---------------------------------------------------------------------------*/

inline empty_out(c)
{
    do
    :: len(c) > 0 -> c?m, w
    :: else -> break
    od;
    m = 0;
    w = 0
}

/* Streams between two that stay: what is on the wire is drawn into a buffer.  Streams of who
 * falls back are dropped. */
inline quiesce_channel(i, j)
{
    if
    :: !back[i] && !back[j] ->
        do
        :: len(wire[S(i, j)]) > 0 ->
            wire[S(i, j)]?m, w;
#ifndef BREAK_QUIESCE
            unexp[S(i, j)]!m, w
#endif
        :: else -> break
        od;
        m = 0;
        w = 0
    :: else ->
        empty_out(wire[S(i, j)])
    fi
}

/* The pair of receives: from a live sender they complete, else they are cancelled and
 * posted again. */
inline quiesce_slots()
{
    k = 0;
    do
    :: k < 2 ->
        if
        :: slot_n[k] != 0 && !slot_done[k] && !back[0] -> slot_done[k] = true
        :: slot_n[k] != 0 && !slot_done[k] && back[0] ->
#ifndef BREAK_REPOST
            slot_n[k] = 0;
            slot_v[k] = 0
#endif
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

inline load_line(r)
{
    pc[r] = line_pc[r];
    at_line[r] = false;
    input[r] = 0;
    result[r] = 0;
    j = 0;
    do
    :: j < NR ->
        if
        :: j != r ->
            sent[S(r, j)] = line_sent[S(r, j)];
            keeps[S(r, j)] = line_keeps[S(r, j)];
            got[S(j, r)] = line_got[S(j, r)];
            empty_out(unexp[S(j, r)]);
            k = line_got[S(j, r)] + 1;
            do
            :: k < NM -> had[S(j, r)].v[k] = 0; k++
            :: else -> break
            od;
            k = 0;
            do
            :: k < line_held[S(j, r)] ->
                k++;
                unexp[S(j, r)]!(line_got[S(j, r)] + k), 1
            :: else -> break
            od;
            k = 0
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0;
    if
    :: r == 0 ->
        /* what is known of the run before is with both again, before anything else */
#ifndef BREAK_FETCH
        if
        :: stored[0] != 0 -> plan[0] = stored[0]
        :: else
        fi;
        if
        :: stored[1] != 0 -> plan[1] = stored[1]
        :: else
        fi;
#endif
        det[0] = 0;
        det[1] = 0;
        first = 0
    :: r == 2 ->
        slot_n[0] = 0;
        slot_n[1] = 0;
        slot_v[0] = 0;
        slot_v[1] = 0;
        slot_done[0] = false;
        slot_done[1] = false
    :: else
    fi
}

/* A receive of the pair has completed, and it is number k. */
#define COMPLETE(i, j, k) \
    ((i) == 0 && (j) == 2 && ((slot_done[0] && (k) == got[S(0, 2)] + 1) || \
                              (slot_done[1] && (k) == got[S(0, 2)] + 2)))

/* What the receiver has: delivered, complete, or drained.  What was drained fills what is
 * open, in order; where nothing is left for it is a hole. */
inline mark(i, j)
{
    mask = 0;
    m = len(unexp[S(i, j)]);
    k = 1;
    do
    :: k < NM ->
        if
        :: k <= got[S(i, j)] || COMPLETE(i, j, k) -> mask = mask | BIT(k)
        :: k > got[S(i, j)] && !COMPLETE(i, j, k) && m > 0 ->
            mask = mask | BIT(k);
            m--
        :: else
        fi;
        k++
    :: else -> break
    od;
#ifdef BREAK_GAPS
    if
    :: mask & BIT(3) -> mask = mask | BIT(2)
    :: else
    fi;
#endif
    m = 0;
    k = 0
}

/* From the log, in order, what the receiver has not. */
inline resend(i, j)
{
    k = 1;
    do
    :: k <= sent[S(i, j)] ->
        if
        :: (keeps[S(i, j)] & BIT(k)) && !(mask & BIT(k)) ->
            wire[S(i, j)]!k, value[S(i, j)].v[k]
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* Teams fall back as a whole; and all ranks do when determinants are lost with those they
 * belong to, because somebody else may know of an outcome that will not be the same. */
inline choose_back()
{
    i = 0;
    do
    :: i < NR ->
        j = 0;
        do
        :: j < NR ->
            if
#ifdef BREAK_TEAM
            :: dead[j] && i == j -> back[i] = true
#else
            :: dead[j] && TEAM(i) == TEAM(j) -> back[i] = true
#endif
            :: else
            fi;
            j++
        :: else -> break
        od;
        i++
    :: else -> break
    od;
#if SILENT != 0 && !defined(BREAK_ALONG)
    k = 0; /* each pass adds a rank, or is the last one */
    do
    :: k < NR -> take_along(); k++
    :: else -> break
    od;
    k = 0;
#endif
#ifndef BREAK_LADDER
    if
    :: back[0] && back[2] -> back[1] = true
    :: else
    fi;
#endif
    i = 0;
    j = 0
}

#if TEAMS == 2
#define TAKE_MATE(i) if :: (i) < 2 -> back[0] = true; back[1] = true :: else fi
#else
#define TAKE_MATE(i) skip
#endif

/* A silent team falls back with whom it has sent to since the line. */
inline take_along()
{
    i = 0;
    do
    :: i < NR ->
        j = 0;
        do
        :: j < NR ->
            if
            :: i != j && IS_SILENT(i) && INTER(i, j) && back[j] &&
               sent[S(i, j)] > line_sent[S(i, j)] ->
                back[i] = true;
                TAKE_MATE(i)
            :: else
            fi;
            j++
        :: else -> break
        od;
        i++
    :: else -> break
    od
}

inline quiesce_all()
{
    each_pair_quiesce();
    if
    :: !back[2] -> quiesce_slots()
    :: else
    fi
}

inline each_pair_quiesce()
{
    i = 0;
    do
    :: i < NR ->
        j = 0;
        do
        :: j < NR ->
            if
            :: i != j -> quiesce_channel(i, j)
            :: else
            fi;
            j++
        :: else -> break
        od;
        i++
    :: else -> break
    od;
    i = 0;
    j = 0
}

inline suppress_and_resend()
{
    i = 0;
    do
    :: i < NR ->
        j = 0;
        do
        :: j < NR ->
            if
            :: i != j && INTER(i, j) && (back[i] || back[j]) ->
                mark(i, j);
#ifdef BREAK_NEW_SUPPRESS
                if
                :: suppress[S(i, j)] == 0 -> suppress[S(i, j)] = mask
                :: else
                fi;
#else
                suppress[S(i, j)] = mask;
#endif
                resend(i, j);
                mask = 0
            :: else
            fi;
            j++
        :: else -> break
        od;
        i++
    :: else -> break
    od;
    i = 0;
    j = 0
}

/* Copies of determinants that a lost process kept are made again. */
inline store_again()
{
    if
#ifndef BREAK_STORE_AGAIN
    :: back[2] && !back[0] -> store_determinants()
#endif
    :: else
    fi
}

/* Who has a result keeps it, and who waits for one its input. */
inline collective_at_failure()
{
    /* a result that only those had who fall back may be another the next time */
    if
    :: (back[0] || result[0] == 0) && (back[1] || result[1] == 0) &&
       (back[2] || result[2] == 0) -> ghost_result = 0
    :: else
    fi;
    i = 0;
    do
    :: i < NR ->
        if
#ifdef BREAK_COLLECTIVE_INPUT
        :: !back[i] && result[i] == 0 -> input[i] = 0
#endif
#ifdef BREAK_COLLECTIVE_RESULT
        :: !back[i] && result[i] != 0 ->
            input[i] = 0;
            result[i] = 0
#endif
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

active proctype repair()
{
    byte i, j, k, m, w, r, mask;
    do
    :: atomic { ANY_DEAD && !over -> frozen = true };
begin:
        atomic { choose_back(); dead[0] = false; dead[1] = false; dead[2] = false };
        /* from here on replacements are there; whoever dies again begins it anew */
        atomic { quiesce_all(); collective_at_failure() };
        if
        :: atomic { ANY_DEAD -> goto begin }
        :: else
        fi;
        r = 0;
        do
        :: r < NR ->
            atomic {
                if
                :: back[r] -> load_line(r)
                :: else
                fi;
                r++
            }
        :: else -> break
        od;
        r = 0;
        if
        :: atomic { ANY_DEAD -> goto begin }
        :: else
        fi;
#ifdef BREAK_RESEND_FIRST
        frozen = false;
#endif
        atomic { suppress_and_resend(); store_again() };
        atomic {
            if
            :: ANY_DEAD -> goto begin
            :: else ->
                back[0] = false;
                back[1] = false;
                back[2] = false;
                frozen = false
            fi
        }
    :: atomic {
        !over && !ANY_DEAD && !frozen && pc[0] == 9 && pc[1] == 5 && pc[2] == 6 ->
        /* what went out of rank 0 is what it did */
        assert(had[S(0, 2)].v[2] == first && had[S(0, 2)].v[3] == 2 + first);
        assert(result[0] == 6 + first && result[1] == result[0] && result[2] == result[0]);
        over = true
    }
    :: over -> break
    od
}

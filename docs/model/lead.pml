/* Replicas: one plane decides what MPI leaves open, and another one takes over after a loss, as a
 * model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * PLANES planes have two ranks each.  Rank TAKER receives a message of any source: from A or from B.
 * It sends a word to that one alone, and so A or B sends a message to rank HEIR, which receives
 * from any source, too.  So the outcome of HEIR has its reason in the outcome of TAKER.  A and B do
 * nothing else, and are no processes here: `mail` has the messages to HEIR.
 *
 * A process has the list of the outcomes that it knows, which has one entry here: 0, A or B.
 * `used` says whether the process has used the outcome.  A leader decides, and writes the outcome to
 * shared memory (`shm`) before it goes on.  A message then travels to each follower.  A follower uses
 * only outcomes that it has been told.
 *
 * Up to FAILURES processes die, at any moments, also before the repair of an earlier loss, as long
 * as one plane is whole.  A repair is one transition.  The plane of a lost process stands still, and
 * takes part in nothing from then on: the next set, which ends the interval, is not modelled
 * (docs/model/replica.pml).  If this plane led, the lowest plane that is whole leads from then on.
 *
 * The rules are those of lib/log/mode/lead.c:
 *
 *   - In a repair each follower adopts what the process that led it has decided: a lost process
 *     from shared memory, a live one by its last message.
 *   - A message that a live process has sent is received in the repair.
 *   - A new leader decides only what is not in its list.
 *   - If no process can read what a lost leader has decided (`blind`: its node is lost), all processes go
 *     back to the line, and no outcome is left.
 *
 * Properties: no plane that is whole waits for ever, and all planes that are whole have the same
 * outcomes.  (Rezaei and Mueller, DINO, section 3: one replica decides for all.)
 *
 * Each rule can be broken by a macro BREAK_...; `make model` sees that spin notices. */

#ifndef PLANES
#define PLANES 3
#endif
#ifndef FAILURES
#define FAILURES 2
#endif

#define TAKER 0
#define HEIR 1
#define A 1
#define B 2
#define NP (2 * PLANES)
#define AT(p, r) (2 * (p) + (r))

byte known[NP];  /* the outcome in the list of a process; 0: none */
bool used[NP];
byte message[NP]; /* on its way to the process */
byte shm[NP];    /* what the process has decided or learned, on its node */
bool word[PLANES]; /* of TAKER, on its way */
byte mail[PLANES]; /* for HEIR: sum of A and B */
bool dead[NP];
bool still[PLANES];
bool knows[PLANES]; /* it has noticed a failure: a leader sends no message any more */
byte leader;
bool blind; /* what a lost leader has decided cannot be read */
byte left = FAILURES;
byte i, p;

#define LIVES(x) (!still[(x) / 2] && !dead[x])
#define LEADS(x) ((x) / 2 == leader)
bool hurt; /* a process is dead, and the repair has not come */

inline send_messages(x)
{
    for (p : 0 .. PLANES - 1) {
        if
        :: p != x / 2 && !still[p] -> message[AT(p, x % 2)] = known[x]
        :: else
        fi
    }
    p = 0
}

/* The process uses an outcome; what it does then has the outcome as its reason. */
inline use(x)
{
    used[x] = true;
    if
    :: x % 2 == TAKER -> word[x / 2] = true
    :: else
    fi
}

/* A leader that has noticed the failure may decide, and tell no process. */
inline decide(x, what)
{
    known[x] = what;
    shm[x] = what;
    if
    :: !knows[x / 2] -> send_messages(x)
    :: else
    fi;
    use(x)
}

/* What a follower takes from the process that led it, in a repair. */
inline adopt(x, from)
{
    if
    :: dead[from] ->
#ifndef BREAK_ADOPT
        if
        :: known[x] == 0 && shm[from] != 0 && !blind -> known[x] = shm[from]
        :: else
        fi
#else
        skip
#endif
    :: else ->
        if
        :: known[x] == 0 && message[x] != 0 -> known[x] = message[x]
        :: else
        fi;
#ifndef BREAK_LAST_LETTER
        if
        :: known[x] == 0 && known[from] != 0 -> known[x] = known[from]
        :: else
        fi
#endif
    fi;
    shm[x] = known[x];
    message[x] = 0
}

/* All processes begin again at the line; the leader stays. */
inline all_back()
{
    for (i : 0 .. NP - 1) {
        known[i] = 0;
        used[i] = false;
        message[i] = 0;
        shm[i] = 0;
        dead[i] = false
    }
    for (i : 0 .. PLANES - 1) {
        word[i] = false;
        mail[i] = 0;
        still[i] = false;
        knows[i] = false
    }
    i = 0;
    hurt = false;
    blind = false
}

inline repair()
{
    for (i : 0 .. NP - 1) {
        if
        :: LIVES(i) && !LEADS(i) -> adopt(i, AT(leader, i % 2))
        :: else
        fi
    }
    for (i : 0 .. NP - 1) {
        if
        :: dead[i] -> still[i / 2] = true
        :: else
        fi
    }
    for (i : 0 .. PLANES - 1) {
        knows[i] = false;
        if
        :: still[leader] && !still[i] -> leader = i
        :: else
        fi
    }
    /* the leader tells all again */
    for (i : 0 .. 1) {
        if
        :: !still[leader] && known[AT(leader, i)] != 0 -> send_messages(AT(leader, i))
        :: else
        fi
    }
    i = 0;
    hurt = false;
    blind = false
}

inline die(x, with_node)
{
    left--;
    dead[x] = true;
    hurt = true;
    blind = blind || with_node
}

inline read_message(x)
{
    assert(known[x] == 0 || known[x] == message[x]);
    known[x] = message[x];
    shm[x] = known[x];
    message[x] = 0
}

#define IS_THERE(x, what) (x % 2 == TAKER || mail[x / 2] == what)
#ifdef BREAK_LIST
#define MAY(x, what) (LIVES(x) && !used[x] && IS_THERE(x, what) && (LEADS(x) || known[x] == what))
#else
#define MAY(x, what)                                                                               \
    (LIVES(x) && !used[x] && IS_THERE(x, what) && (known[x] == what || (known[x] == 0 && LEADS(x))))
#endif

#define IS_WHOLE(q) (!still[q] && !dead[AT(q, TAKER)] && !dead[AT(q, HEIR)])
#define ONE(q) (IS_WHOLE(q) -> 1 : 0)
#if PLANES > 2
#define WHOLE (ONE(0) + ONE(1) + ONE(2))
#else
#define WHOLE (ONE(0) + ONE(1))
#endif
#define DONE(q) (still[q] || (used[AT(q, TAKER)] && used[AT(q, HEIR)]))
#define OVER (!hurt && DONE(0) && DONE(1) && DONE(PLANES - 1))

#define PROCESS(x)                                                                                 \
    :: atomic { MAY(x, A) && known[x] == A -> use(x) }                                             \
    :: atomic { MAY(x, B) && known[x] == B -> use(x) }                                             \
    :: atomic { MAY(x, A) && known[x] != A -> decide(x, A) }                                       \
    :: atomic { MAY(x, B) && known[x] != B -> decide(x, B) }                                       \
    :: atomic { LIVES(x) && !LEADS(x) && message[x] != 0 && !knows[x / 2] -> read_message(x) }       \
    :: atomic { left > 0 && LIVES(x) && (WHOLE > 1 || !IS_WHOLE((x) / 2)) -> die(x, false) }           \
    :: atomic { left > 0 && LIVES(x) && LEADS(x) && (WHOLE > 1 || !IS_WHOLE((x) / 2)) -> die(x, true) }

#define PLANE(q)                                                                                   \
    PROCESS((2 * q))                                                                               \
    PROCESS((2 * q + 1))                                                                           \
    :: atomic { !still[q] && word[q] -> word[q] = false; mail[q] = known[AT(q, TAKER)] }           \
    :: atomic { hurt && !knows[q] -> knows[q] = true }

active proctype world()
{
    do
    PLANE(0)
    PLANE(1)
#if PLANES > 2
    PLANE(2)
#endif
#ifndef BREAK_BLIND
    :: atomic { hurt && !blind -> repair() }
    :: atomic { hurt && blind -> all_back() }
#else
    :: atomic { hurt -> repair() }
#endif
    :: atomic { OVER -> break }
    od;
    for (i : 0 .. NP - 1) {
        assert(still[i / 2] || known[i] == known[AT(leader, i % 2)])
    }
}

/* Replay with dependency vectors and without determinants (lib/log/mode/depend.c), as a model for spin.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * S and R have rolled back, Q has not: Q resends all its messages from its log at once.
 * The program: S sends part 1 to R, then receives b from Q, then sends part 2 to R.  R receives the
 * parts 1 of S and Q, from any source, notifies Q, and receives the parts 2.  Q had sent b and its
 * part 2 after that notice.  S has posted the receive of b before it sends part 1.
 *
 * A message carries how many sends of S and of R its sender knew of.  BREAK_CONDITION: R delivers
 * any message; then R delivers a part in the wrong step.  BREAK_NAMED: receives that name their
 * source, here that of b, have no delivery condition; then S knows of a send of R before S has sent
 * the message that R waits for.  The vector of part 1 contains that send, and R never delivers
 * part 1. */

#define NP 2

/* parts on the way to R: which step, and how many sends of R it knows of */
byte from_s[NP], from_q[NP];
byte ns, nq = NP;          /* sent */
byte is, iq;               /* taken */
byte made_s, made_r;       /* sends since the line */
byte s_knows;              /* ... of R */
bool b_taken;

#ifdef BREAK_CONDITION
#define OPEN(knows) true
#else
#define OPEN(knows) ((knows) <= made_r)
#endif
#ifdef BREAK_NAMED
#define B_OPEN true
#else
#define B_OPEN (made_s >= 1) /* b knows of part 1 of S ... */
#endif

inline take_b()
{
    atomic {
        !b_taken && B_OPEN;
        b_taken = true;
        s_knows = 1;         /* ... and of what R told Q */
    }
}

inline send_part()
{
    atomic {
        made_s++;
        from_s[ns] = s_knows;
        ns++;
    }
}

active proctype S()
{
    if
    :: take_b()              /* it was posted, and is here already */
    :: skip
    fi;
    send_part();
    if
    :: b_taken
    :: take_b()
    fi;
    send_part()
}

active proctype R()
{
    byte step, n;
    from_q[1] = 1;
    for (step : 0 .. NP - 1) {
        n = 0;
        do
        :: n == 2 -> break
        :: atomic { n < 2 && is < ns && OPEN(from_s[is]) -> assert(is == step); is++; n++ }
        :: atomic { n < 2 && iq < nq && OPEN(from_q[iq]) -> assert(iq == step); iq++; n++ }
        od;
        made_r++
    }
}

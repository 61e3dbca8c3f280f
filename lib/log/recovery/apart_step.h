/* checkpoint.line = apart: the decisions of a rank, as a pure function.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * ftk_apart_step() gets a state and an event, and gives the next state and a list of actions.  The
 * function uses no MPI, no files, no clock and no variables of its own: apart.c gathers the events,
 * and apart_do.c carries the actions out.  The diagram of the states is in apart_step.c. */
#ifndef FTK_LOG_APART_STEP_H
#define FTK_LOG_APART_STEP_H

#include <stdbool.h>
#include <stdint.h>

enum ftk_apart_state {
    FTK_APART_AWAY,
    FTK_APART_INITIATED,
    FTK_APART_COUNTING,
    FTK_APART_COUNTED,
    FTK_APART_CLOSING,
    FTK_APART_CLOSED,
    FTK_APART_SIZING,
    FTK_APART_SIZED,
    FTK_APART_SENDING,
    FTK_APART_SENT,
    FTK_APART_COMMITTED,
    FTK_APART_STARTING,
    FTK_APART_FROZEN
};

/* Rounds of the tallies of a set. */
enum ftk_apart_round {
    FTK_ROUND_INITIATE,
    FTK_ROUND_CUT,
    FTK_ROUND_CLOSED,
    FTK_ROUND_SIZED,
    FTK_ROUND_SENT,
    FTK_ROUND_SEEN,
    FTK_ROUND_MOST = 8
};

/* What a rank asks rank 0 for; 0: nothing. */
enum { FTK_WANT_SET = 1, FTK_WANT_DURABLE, FTK_WANT_OUTSIDE, FTK_WANT_HALT };

/* Words of a round: of an initiation durable, local and want, else the two errors. */
struct ftk_apart_words {
    int error, local_error; /* codes of ftkit */
    int durable;            /* see ftk_policy_durable() */
    bool local;             /* see ftk_local_due() */
    int want;
};

/* The state of a rank. */
struct ftk_apart_rank {
    enum ftk_apart_state state;
    uint64_t set;    /* that is initiated or open */
    int durable;     /* of its initiation */
    bool local;      /* ... */
    int want;        /* what the set was asked for; 0: it was due */
    bool open;       /* this rank has cut, and the set is neither committed nor given up */
    bool all_cut;    /* ... and all ranks have cut */
    bool halted;     /* the set of a halt is committed */
    bool busy;       /* rank 0: a rank may not have seen the end of the last set */
    int wanted;      /* what this rank has asked rank 0 for, which may not know it yet */
    int served;      /* the request of the program of this rank that the open set is for */
    int error;       /* of this rank, besides that of its part of the set */
    int local_error; /* of all ranks, in level.local: the set is not written there */
};

enum ftk_apart_event_kind {
    FTK_ON_DUE,        /* rank 0: set is due.  words: of an initiation */
    FTK_ON_NOT_SAID,   /* ... and the other ranks do not know of it */
    FTK_ON_INITIATION, /* rank 0 has initiated set.  words */
    FTK_ON_WANT,       /* this rank wants words.want */
    FTK_ON_NOT_ASKED,  /* ... and rank 0 was not asked for it */
    FTK_ON_CALL,       /* the program is in ftkit_checkpoint(), and this rank may cut */
    FTK_ON_READY,      /* this rank has ended the work of its state */
    FTK_ON_RESULT,     /* the result of the round of the state has come.  words */
    FTK_ON_SEEN,       /* rank 0: the result of round SEEN has come */
    FTK_ON_PATIENCE,   /* rank 0: a rank has not cut for too long */
    FTK_ON_HOW,        /* COMMITTED: how the set goes to the files.  how */
    FTK_ON_FLUSHED,    /* the set is in the files, a thread has it, or words.error */
    FTK_ON_ERROR,      /* an error of this rank: words.error */
    FTK_ON_MEETING,    /* all ranks have met in another call, and know the cuts of all: least,
                          most, set */
    FTK_ON_FAILURE,    /* a repair begins */
    FTK_ON_LINE,       /* the ranks have agreed on the line of the repair: set */
    FTK_ON_STAY,       /* the line of the repair is that of a halt, and this rank stays there */
    FTK_ON_ROLLBACK    /* this rank rolls back, or the log closes */
};

/* How a set goes to the files. */
enum ftk_apart_how { FTK_HOW_NOT, FTK_HOW_BEHIND, FTK_HOW_AFTER, FTK_HOW_WAIT };

struct ftk_apart_event {
    enum ftk_apart_event_kind kind;
    /* in all events: of this rank */
    bool first;          /* rank 0 */
    int requested;       /* by the program: policy.requested */
    int cut_error;       /* of this rank's part of the set */
    int cut_local_error; /* ... in level.local */
    /* of some kinds */
    uint64_t set;
    uint64_t least, most; /* the sets that ranks have cut for */
    struct ftk_apart_words words;
    enum ftk_apart_how how;
};

/* In the order of the groups of apart_do.c. */
enum ftk_apart_act {
    /* rounds, files */
    FTK_DO_INITIATE,    /* announce words in round INITIATE of set */
    FTK_DO_END_ROUND,   /* announce words in round CUT, before all ranks have given theirs */
    FTK_DO_SAY,         /* words in round */
    FTK_DO_SAY_UP,      /* ... whose result is for rank 0 only */
    FTK_DO_VOID,        /* rounds below round of set */
    FTK_DO_ASK,         /* rank 0 for number */
    FTK_DO_CLOCK,       /* an initiation has come: patience begins */
    FTK_DO_END_TALLY,   /* messages of tallies and of the start of a flush are lost */
    FTK_DO_START_FLUSH, /* begin to give the set to the threads */
    FTK_DO_WRITE_FILES, /* write the set to the files, and wait */
    FTK_DO_RETURN,      /* words.error, and errors of the files, are for ftkit_checkpoint() */
    /* the log */
    FTK_DO_SHOW,         /* set, open, all_cut and halted of the new state */
    FTK_DO_SEND_COUNTS,  /* how many messages this rank had sent at its cut */
    FTK_DO_STOP,         /* record no more determinants for the set */
    FTK_DO_SEND_EARLY,   /* how many early messages this rank has */
    FTK_DO_DROP_NUMBERS, /* of messages, under way */
    FTK_DO_PASS_LINE,    /* the open set is the line */
    FTK_DO_DISCARD,      /* all that has happened since the last line is one interval again */
    FTK_DO_HALT,         /* all calls of the program fail */
    /* this rank's part of the set */
    FTK_DO_COPY_LOG,     /* cut: the state of the log.  An error ends the set in round CUT */
    FTK_DO_COPY_REGIONS, /* ... the regions, if there is no error so far */
    FTK_DO_FINISH,       /* late and early messages are known: complete the region of the log */
    FTK_DO_SEAL,         /* pack the region of the log, seal the segment */
    FTK_DO_BEGIN_LOCAL,  /* the set goes to level.local, too */
    FTK_DO_END_LOCAL,    /* ... and is there, or words.local_error */
    FTK_DO_COUNT_LOCAL,  /* the set does not go to level.local */
    FTK_DO_COMMIT,       /* the set is committed; number: what the set was asked for */
    FTK_DO_END_CUT,      /* the part ends, with words.error */
    /* when and where the next set is written */
    FTK_DO_REQUEST,     /* policy.requested becomes number */
    FTK_DO_NUMBER,      /* the next set gets the number set */
    FTK_DO_NUMBER_PAST, /* ... a number above set */
    FTK_DO_TRIED,       /* it is due after a period */
    FTK_DO_REST,        /* it is not initiated for a second */
    FTK_DO_FAIL,        /* set is given up: words.error is for ftkit_checkpoint() (number: 1: it
                           is of this rank) */
    FTK_DO_FLUSH_LOST   /* it is due in the files */
};

struct ftk_apart_action {
    enum ftk_apart_act act;
    enum ftk_apart_round round;
    uint64_t set;
    int number;
    struct ftk_apart_words words;
};

/* In the order in which they are carried out. */
struct ftk_apart_actions {
    int n;
    struct ftk_apart_action v[16];
};

void ftk_apart_step(
    struct ftk_apart_rank *r, const struct ftk_apart_event *e, struct ftk_apart_actions *todo);

/* The round whose result ends the wait of a state; ROUND_INITIATE: the state waits for none. */
enum ftk_apart_round ftk_apart_round_of(enum ftk_apart_state state);
/* For a meeting: the set that this rank has cut for (committed: its last line), and the newest set
 * that it knows; 0: none. */
uint64_t ftk_apart_cut_for(const struct ftk_apart_rank *r, uint64_t committed);
uint64_t ftk_apart_knows(const struct ftk_apart_rank *r);

#endif

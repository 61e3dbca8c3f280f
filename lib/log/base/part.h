/* What the log asks of each of its parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A part is a unit with a state of its own, such as the collectives, the determinants or the
 * virtual communicators.  The log goes through a wait, a line, a rollback or its end by asking all
 * parts in the order of parts.h, and knows none of them by name.  A function that is NULL does
 * nothing.  Functions that return int return codes of ftkit. */
#ifndef FTK_LOG_PART_H
#define FTK_LOG_PART_H

#include "log/log.h"
#include "log/base/parts.h"

/* How a line is passed. */
enum ftk_pass {
    FTK_PASS_MET,    /* all ranks are at the line, and have no messages in flight */
    FTK_PASS_MISSED, /* another rank has seen the commit, and this rank learns of it in a repair: it
                        may have drained messages that were sent after the line */
    FTK_PASS_CUT     /* a line apart: this rank has gone on since its cut */
};

/* The first half of a repair quiesces the old communicators. */
struct ftk_quiescing {
    const struct ftk_log_repair *r;
    int (*look)(void *arg); /* a part that waits calls this between its looks; an error, such as a
                               further failure, ends the step */
    void *arg;
};
/* The receive of a message of a dead rank may stay pending for ever: so many looks, then the part
 * gives the receive up. */
enum { FTK_LAST_LOOKS = 1000 };
/* Look until the MPI sends nothing more of a part.  sends: as in struct ftk_part. */
static inline int ftk_quiescing_await(const struct ftk_quiescing *q, bool (*sends)(void))
{
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && sends())
        rc = q->look(q->arg);
    return rc;
}

/* A rollback of this rank. */
struct ftk_rollback {
    bool others_stay; /* there are ranks that do not roll back */
    bool in_set_up;   /* it replays set-up, and continues with the rest of its set-up log */
};

/* The section of a part in a set that is being restored. */
struct ftk_section {
    const uint64_t *w, *end; /* its words; NULL: the set has no such section */
    uint64_t calls;          /* of ftkit_checkpoint(), at the cut of the rank that wrote the set */
    bool as_many;            /* as many ranks of the program wrote the set */
    bool first;              /* this process has not been at the line of the set */
};

struct ftk_control_kind;
struct ftk_system_region;

struct ftk_part {
    /* The part that serves this log: this one, another one, or NULL: none.  No function: this
     * one. */
    const struct ftk_part *(*serves)(void);

    /* ---- the life of the log ---- */

    /* A context opens: the state before there are ranks.  Nothing is closed that an earlier context
     * has had. */
    void (*begin)(void);
    /* This process has got its rank among n: make tables.  Called in each repair. */
    int (*open)(int n);
    /* ftkit_open() is about to return: from now on the log handles the calls of the program. */
    int (*start)(void);
    /* The first ftkit_recover() is about to return: set-up is over. */
    void (*enter_loop)(void);
    /* The log closes, and has been started: it handles no call of the program any more.  In the
     * opposite order. */
    void (*stop)(void);
    /* This rank rolls back, or the log closes: drop what the program has under way.  All calls
     * fail. */
    void (*forget)(void);
    /* The log closes: the state is that of a process that never had a log.  Parts close in the
     * opposite order.  A part that was never opened closes, too. */
    void (*close)(void);

    /* ftkit_query(): the fields of *info that this part counts; the others are 0. */
    void (*figures)(ftkit_info *info);

    /* ---- progress ---- */

    /* One look in a wait, while no set is written: what the program has begun goes on. */
    void (*progress)(void);
    /* Whether the part needs no progress now; NULL: it always needs progress.  A part that becomes
     * idle, or is idle no more, calls ftk_parts_list_progress().  So most looks are short. */
    bool (*idle)(void);
    /* One look in any wait, also while a set is written: give other ranks what they wait for. */
    void (*serve)(void);
    /* Whether the MPI still sends something of this part.  A line together waits until no part
     * sends, and a rank sleeps only then (may_sleep). */
    bool (*sends)(void);
    /* Some looks of a wait, for work that may take longer than a message.  turns: number of the
     * look in its wait; 0: the call does not wait for the log.  All looks, after
     * ftk_parts_be_eager(true). */
    void (*turn)(unsigned turns);

    /* ---- control messages (control.h) ---- */

    /* [ncontrols] the kinds that this part sends, and no other part. */
    const struct ftk_control_kind *controls;
    size_t ncontrols;

    /* ---- lines and failures ---- */

    /* The line is here, if the set is committed.  apart: this rank cuts, and goes on.  All parts
     * are asked, also after an error. */
    int (*cut)(bool apart);
    /* The line is committed (counted by ftk_log.line.count).  first: no line was before. */
    void (*line)(enum ftk_pass kind, bool first);
    /* Line apart: the set of the cut is given up. */
    void (*discard)(void);
    /* A set is over, committed or given up: free the copies that this part keeps for it.  Called
     * behind line(), discard() and roll_back(), and when a line together has ended; there may have
     * been no set. */
    void (*cut_over)(void);

    /* A failure is known, and a repair begins: nothing of an open set is under way any more. */
    void (*freeze)(void);

    /* ---- the first half of a repair, in this order (recovery/recovery.c) ----
     * A further failure repeats it.  r->is_new: replaced ranks, whose processes are dead. */

    /* Collective over r->act, also at an opening: make and exchange what the next epoch needs. */
    int (*prepare)(const struct ftk_log_repair *r);
    /* Not at an opening.  Send what cannot be sent later. */
    void (*quiesce)(const struct ftk_log_repair *r);
    /* This part announces so many numbers to each rank, in all processes the same: how many
     * messages it has sent to that rank, for example.  announce() writes those for a partner
     * (peers.h); any other rank gets 0.  announced() gets those of a rank for this one.  It is not
     * called for a rank that is no partner when all parts of that rank announce 0. */
    size_t announces;
    void (*announce)(int rank, uint64_t *numbers);
    void (*announced)(int rank, const uint64_t *numbers);
    /* Not in a new process.  Receive all that the live ranks have announced. */
    int (*drain)(const struct ftk_quiescing *q);
    /* Not in a new process.  Take from the MPI what is under way: nothing more comes from live
     * ranks. */
    int (*withdraw)(const struct ftk_quiescing *q);
    /* The communicators are quiet, or a step has failed. */
    void (*quiesced)(void);
    /* Collective over r->act, also at an opening: exchange what depends on the messages that have
     * come.  lines: committed so far. */
    int (*exchange)(const struct ftk_log_repair *r, uint64_t lines);

    /* This attempt has failed: drop what prepare() has made.  All parts are asked, also after an
     * error. */
    int (*abandon)(void);

    /* ---- the second half ---- */

    /* The ranks have agreed on the epoch: it begins, and nothing has been sent in it. */
    int (*new_epoch)(const struct ftk_log_repair *r);
    /* Not at an opening.  The set of a cut that is open is r->line, and is committed, or is given
     * up. */
    void (*settle_set)(const struct ftk_log_repair *r);
    /* The epoch has begun; messages in the old communicators are gone. */
    int (*install)(const struct ftk_log_repair *r);
    /* Not at an opening.  This rank does not roll back: send what other ranks have lost, and go
     * on. */
    int (*stay)(const struct ftk_log_repair *r);
    /* This rank stays, and others replay: whether this rank may sleep in a wait, because no other
     * rank waits for what this part does in a look. */
    bool (*may_sleep)(void);
    /* This rank rolls back to the line: drop the state since then.  All parts are asked, also after
     * an error. */
    int (*roll_back)(const struct ftk_rollback *b);
    /* A replacement has replayed set-up, and has the regions of the line: end what set-up has left
     * under way.  Called before restored(). */
    void (*set_up_over)(void);
    /* The regions are those of a line, and calls of the program succeed again: after a rollback, or
     * at a start.  All parts are asked, also after an error. */
    int (*restored)(void);

    /* ---- in a set ---- */

    /* What a set has of the part as a region; registered when the log opens.  NULL: nothing but the
     * section. */
    const struct ftk_system_region *region;

    /* The section of the part (recovery/image.c). */

    const char *name; /* at most 8 characters; no other part has it */
    /* As many words as the section has now; write them, to the address behind them.  At a line
     * apart the section is that of the cut, and is written there, unless it is late. */
    size_t (*words)(void);
    uint64_t *(*save)(uint64_t *w);
    bool needed; /* a set without the section is damaged, in all versions */
    bool late;   /* the section does not change after the cut, or is known after finish() only */
    /* Line apart: all late messages have come, and all numbers of early ones. */
    int (*finish)(void);
    /* This rank is restored.  The words may be damaged: nothing in them is trusted. */
    int (*load)(const struct ftk_section *in);
};

#define FTK_DECLARE_PART(word) extern const struct ftk_part ftk_part_##word;
FTK_LOG_PARTS(FTK_DECLARE_PART)
#undef FTK_DECLARE_PART

/* Looks of a wait between two calls of turn(); the first look of a wait is one of
 * them. */
enum { FTK_TURNS_WATCH = 16, FTK_TURNS_SHORT = 4 };

/* ---- the parts of this log, in their order (base/part.c) --------------------------------- */

enum { FTK_PARTS_MOST = 64 };
typedef void ftk_look_fn(void);
typedef void ftk_turn_fn(unsigned turns);
extern struct ftk_parts {
    const struct ftk_part *v[FTK_PARTS_MOST]; /* [n], then NULL */
    size_t n;
    /* the functions that every look of a wait calls; NULL: the end */
    ftk_look_fn *progress[FTK_PARTS_MOST], *serve[FTK_PARTS_MOST];
    ftk_turn_fn *turn[FTK_PARTS_MOST];
    const struct ftk_control_kind *controls[FTK_PARTS_MOST]; /* all kinds, then NULL */
    bool eager;   /* a part has work in each look of a wait */
    bool in_band; /* some control messages go among the messages of the program */
    uint64_t
        of_state; /* bit c: the messages of own context c change the state of a set (control.h) */
    size_t announces; /* numbers for each rank, of all parts */
} ftk_parts;

/* The log opens: these parts [n] serve it.  ftk_log has its mode. */
void ftk_parts_register(const struct ftk_part *const *all, size_t n);

/* Each function asks all parts.  The first error. */
int ftk_parts_regions(struct ftkit_ctx *ctx);
void ftk_parts_begin(void);
int ftk_parts_open(int n);
int ftk_parts_start(void);
void ftk_parts_enter_loop(void);
void ftk_parts_stop(void);
void ftk_parts_forget(void);
void ftk_parts_close(void);
void ftk_parts_figures(ftkit_info *info);
int ftk_parts_cut(bool apart);
void ftk_parts_line(enum ftk_pass kind, bool first);
void ftk_parts_discard(void);
void ftk_parts_cut_over(void);
void ftk_parts_freeze(void);
int ftk_parts_prepare(const struct ftk_log_repair *r);
void ftk_parts_quiesce(const struct ftk_log_repair *r);
void ftk_parts_announce(int rank, uint64_t *numbers);
void ftk_parts_announced(int rank, const uint64_t *numbers);
int ftk_parts_drain(const struct ftk_quiescing *q);
int ftk_parts_withdraw(const struct ftk_quiescing *q);
void ftk_parts_quiesced(void);
int ftk_parts_exchange(const struct ftk_log_repair *r, uint64_t lines);
int ftk_parts_abandon(void);
int ftk_parts_new_epoch(const struct ftk_log_repair *r);
void ftk_parts_settle_set(const struct ftk_log_repair *r);
int ftk_parts_install(const struct ftk_log_repair *r);
int ftk_parts_stay(const struct ftk_log_repair *r);
int ftk_parts_roll_back(const struct ftk_rollback *b);
void ftk_parts_set_up_over(void);
int ftk_parts_restored(void);
int ftk_parts_finish(void);
bool ftk_parts_send(void);
bool ftk_parts_may_sleep(void);

/* List the parts that need progress: those that are not idle now.  Not inside a look of a wait. */
void ftk_parts_list_progress(void);

/* Whether turn() of all parts is called in each look of a wait from now on.  One part uses this. */
static inline void ftk_parts_be_eager(bool eager)
{
    ftk_parts.eager = eager;
}

static inline void ftk_parts_progress(void)
{
    for (ftk_look_fn *const *f = ftk_parts.progress; *f; f++)
        (*f)();
}
static inline void ftk_parts_serve(void)
{
    for (ftk_look_fn *const *f = ftk_parts.serve; *f; f++)
        (*f)();
}
static inline void ftk_parts_turn(unsigned turns)
{
    for (ftk_turn_fn *const *f = ftk_parts.turn; *f; f++)
        (*f)(turns);
}

#endif

/* Determinants inside: what the files det*.c share, and no other file uses.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From the top, each file refers to files below it only:
 *
 *     det.c         the part: life, lines, rollbacks
 *     det_probe.c   a replay: the outcomes of probes, tests, waits and decided values
 *     det_record.c  the outcomes of free choices
 *     det_line.c    the line in the list, and numbers before and behind it
 *     det_replay.c  the plan of a replay, and what it prescribes to receives
 *     det_search.c  determinants of lost ranks
 *     det_file.c    the files in shared memory, of this process and of its neighbours
 *     det_kinds.c   the kinds of determinants: facts, and what is sane in a set */
#ifndef FTK_LOG_DET_INSIDE_H
#define FTK_LOG_DET_INSIDE_H

#include <stdatomic.h>

#include "log/determinant/det.h"
#include "log/mode.h"

#pragma GCC visibility push(hidden) /* variables are found without the table of the library */

/* ---- files (det_file.c) ------------------------------------------------------------------ */

#define FTK_DET_MAGIC 0x746564666b746631u

/* A file: this head, then the determinants in the order of the events. */
struct ftk_det_head {
    uint64_t magic;
    uint64_t lines;            /* committed before the determinants */
    _Atomic uint64_t epoch_id; /* epoch to which the determinants belong */
    uint64_t next;             /* epoch to which they will belong, if the ranks agree */
    _Atomic uint64_t n;        /* complete determinants */
    _Atomic uint64_t stable;   /* how many are stable, below 16 bits of the epoch id */
    uint64_t pad[2];
};

/* One file for each of the last two intervals between lines: a process that alone knows that a line
 * is committed may die, and then all ranks roll back to the line before. */
struct ftk_det_file {
    struct ftk_det_head *head; /* NULL: not open */
    size_t bytes;              /* mapped */
    int fd;
    char name[112];
};

/* The files of this process. */
extern struct ftk_det_files {
    struct ftk_det_file file[2], *now; /* by the parity of the line; now: NULL when not open */
    /* where a determinant goes: see ftk_det_append() */
    enum { FTK_DET_ONE_FILE, FTK_DET_SINCE_CUT, FTK_DET_SINCE_COMMIT } to;
} ftk_det_files;

static inline struct ftk_det *ftk_det_list_of(const struct ftk_det_file *f)
{
    return (struct ftk_det *)(void *)(f->head + 1);
}

static inline size_t ftk_det_n_of(const struct ftk_det_file *f)
{
    return (size_t)atomic_load_explicit(&f->head->n, memory_order_relaxed);
}

/* The determinants since the line, and their number. */
static inline struct ftk_det *ftk_det_list(void)
{
    return ftk_det_list_of(ftk_det_files.now);
}

static inline size_t ftk_det_n(void)
{
    return ftk_det_files.now ? ftk_det_n_of(ftk_det_files.now) : 0;
}

/* The file of ftk_det_files that is not `now`. */
static inline struct ftk_det_file *ftk_det_other_file(void)
{
    return ftk_det_files.now == &ftk_det_files.file[0] ? &ftk_det_files.file[1]
                                                       : &ftk_det_files.file[0];
}

/* Room for n determinants in a file. */
int ftk_det_grow(struct ftk_det_file *f, size_t n);
static inline int ftk_det_reserve(struct ftk_det_file *f, size_t n)
{
    return sizeof *f->head + n * sizeof(struct ftk_det) <= f->bytes ? FTKIT_OK : ftk_det_grow(f, n);
}

/* ftk_det_open() and ftk_det_close() for the files alone.  The caller closes after an error. */
int ftk_det_open_files(const struct ftk_det *before, size_t n, uint64_t line, uint64_t epoch_id);
void ftk_det_close_files(void);
/* Empty a file, for the interval behind a line. */
void ftk_det_begin_file(struct ftk_det_file *f, uint64_t line);
/* The file of a process for an interval; what the names of all files of a job begin with. */
void ftk_det_name_of(int rank, long pid, uint64_t line, char *out, size_t bytes);
void ftk_det_name_of_job(uint64_t job, char *out, size_t bytes);
/* The job is over: remove the files that dead processes have left on this node. */
void ftk_det_clean(uint64_t job);

/* ---- lost ranks (det_search.c) ----------------------------------------------------------- */

void ftk_det_forget_search(void);

/* ---- the line (det_line.c) --------------------------------------------------------------- */

/* A determinant with the numbers that it has in the interval before the line, or behind it. */
struct ftk_det ftk_det_of_before(struct ftk_det det);
struct ftk_det ftk_det_of_after(struct ftk_det det);
/* The determinants since the line, up to number upto, with their new numbers; *n: how many; the
 * caller frees them.  There are some when the line is apart, or when this rank has not seen the
 * commit: the repair has completed receives meanwhile. */
struct ftk_det *ftk_det_since_line(size_t upto, size_t *n);
/* begun [FTK_DET_COUNTS]: how many receives and probes are begun since the line that is committed
 * now. */
void ftk_det_pass_line(uint32_t *begun);
void ftk_det_forget_line(void);

/* ---- the course of the program, and the plan of its replay (det_replay.c) ---------------- */

struct ftk_det_place {
    uint32_t number, index;
};

extern struct ftk_det_course {
    uint32_t begun[FTK_DET_COUNTS]; /* receives and probes since the line; CALLS: 0 */
    uint32_t nothings;              /* probes and tests in a row that found nothing */
    /* in a replay */
    size_t plan; /* the first determinants of the list, which the replay repeats */
    size_t at;   /* among them: the next one of a probe or a test */
    /* for each kind of receives: the determinants of the plan, by the numbers of the receives */
    struct ftk_det_by_number {
        struct ftk_det_place *v; /* [n] room for the next power of two */
        size_t n;
    } of[FTK_DET_NKINDS];
    struct ftk_det_probed { /* the last probe that a replay has repeated */
        struct ftk_envelope asked, found;
        uint32_t receive; /* the number of the next receive then; 0: none */
    } probed;
} ftk_det_course;

/* A process that is before the line repeats and records nothing. */
static inline bool ftk_det_counts(void)
{
    return !ftk_log_is_rolling_back() && !ftk_log_replays_setup() && ftk_log.mode->records;
}

/* The program is at the line; there is no plan. */
void ftk_det_begin_again(void);
/* Find the determinant of each receive in the plan.  FTKIT_ERR_NOMEM. */
int ftk_det_sort_out(void);
/* The next determinant of a probe, a test or a wait; NULL: none is left. */
const struct ftk_det *ftk_det_upcoming(void);
/* Pass each NONE whose failed calls the replay has made: a message of this rank followed them, and
 * follows now, too. */
void ftk_det_pass_nothings(void);
/* Add determinant i of the list to the plan.  False: no memory. */
bool ftk_det_add_to_plan(size_t i);
/* ... one that this rank has recorded by itself, behind its plan: its call is over. */
void ftk_det_pass_own(size_t i);

/* ---- recording (det_record.c) ------------------------------------------------------------ */

void ftk_det_append(struct ftk_det det);
void ftk_det_hold(bool on); /* do not record: the replay makes these choices again */

/* ---- outcomes (det_probe.c) -------------------------------------------------------------- */

void ftk_det_forget_copy(void);

#pragma GCC visibility pop

#endif

/* What the drop-in headers share: one context, one table of protected memory, one set-up file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Only calls of ftkit.h are used.  Each library (libftkit_veloc, libftkit_fti, libftkit_scr) has a
 * copy of these files, and a process uses one of the libraries. */
#ifndef FTK_COMPAT_H
#define FTK_COMPAT_H

#include <ftkit.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FTK_COMPAT_NAME_BYTES = 64 };

/* What a set says about itself: a replicated region. */
struct ftk_compat_mark {
    int64_t version;                  /* as the program numbers its checkpoints */
    int64_t kind;                     /* of the peer: the level of FTI */
    char name[FTK_COMPAT_NAME_BYTES]; /* of the checkpoint, "" for FTI */
};

/* When a set is written. */
enum ftk_compat_due { FTK_COMPAT_BY_PERIOD, FTK_COMPAT_NOW, FTK_COMPAT_DURABLE };

/* Which regions of a table a call is about. */
enum ftk_compat_mode { FTK_COMPAT_ALL, FTK_COMPAT_SOME, FTK_COMPAT_REST };

struct ftk_compat {
    const char *peer;            /* begins each line on stderr */
    ftkit_ctx *ft;               /* NULL: no context is open */
    MPI_Comm comm;               /* of the working ranks, kept current */
    int rank;                    /* in comm */
    struct ftk_compat_mark mark; /* of the newest set, or of the set that is being written */
    bool recovered;              /* ftkit_recover() has been called */
    bool has_set;                /* ... and there was a set */
    bool restored;               /* ... and the program has taken it, or was rolled back */
    bool moved;                  /* ftkit_checkpoint() has been called since the last restore */
    bool wrote;                  /* the last ftkit_checkpoint() has committed a set */
    bool finishing;              /* the program has given its memory back */
    bool bad;                    /* this rank has nothing to save: no rank writes this set */
    bool unfit;                  /* the memory could not take what a rollback has brought */
    bool has_files;              /* checkpoints have files, which are read at the start alone */
    void (*at_end)(void);        /* where ftk_compat_end() begins; NULL: nothing */
    bool starts_over;            /* the program cannot go back, and asks Should_exit about a halt */
};
extern struct ftk_compat ftk_compat;

/* ---- the context: context.c ---------------------------------------------------------- */

/* Print a line on stderr: "ftkit: PEER: rank N: ...". */
__attribute__((format(printf, 1, 2))) void ftk_compat_say(const char *format, ...);

/* Open the context on comm, with the text of an INI file.  Collective.  Returns a code of ftkit. */
int ftk_compat_open(const char *peer, MPI_Comm comm, const char *ini);

/* ftkit_recover(), in the first call; later calls do nothing.  Collective.
 * FTKIT_OK: there is a set, or the call is a later one; FTKIT_NO_SET; an error. */
int ftk_compat_recover(void);

/* Before a call in which the others are in their loop: a replacement has taken the set by now, or
 * the call ends the job.  calls: what the program has to call.  Collective. */
void ftk_compat_need_restore(const char *calls);

/* End the job, whose result would be wrong: `ftkit run` does not relaunch it. */
_Noreturn __attribute__((format(printf, 1, 2))) void ftk_compat_abort(const char *format, ...);

/* Close the context and end the process. */
_Noreturn void ftk_compat_end(int code);

/* Write a set with this mark.  Collective.  FTKIT_OK; FTKIT_ROLLED_BACK: the protected memory holds
 * the last set, and the mark is that of this set; an error: no set, the last one holds, unless
 * ftk_compat.wrote says that an error is about files alone.  Where the job halts or cannot go on,
 * the call ends the process.  With ftk_compat.starts_over the call ends the process where it would
 * roll back, and returns FTKIT_HALT where the job halts. */
int ftk_compat_checkpoint(enum ftk_compat_due due, const struct ftk_compat_mark *mark);

/* ftkit_wait(), with the results of ftk_compat_checkpoint().  Collective. */
int ftk_compat_wait(void);

/* The end of the work, after which the program may free its memory.  Collective.  A rank that would
 * have to roll back here ends, and its replacement goes on from the last set. */
int ftk_compat_finish(void);

/* ftkit_close(), if the context is open.  Collective.  Errors are printed. */
int ftk_compat_close(void);

/* ---- protected memory: protect.c ----------------------------------------------------- */

int ftk_compat_register(ftkit_ctx *ft);

/* Protect memory, or move the memory of an id that is protected.  bytes may be 0.
 * counter: one whole number.  false: no memory for the table. */
bool ftk_compat_protect(int id, void *data, size_t bytes, bool counter);
bool ftk_compat_unprotect(int id); /* false: no such id */
void ftk_compat_unprotect_all(void);
bool ftk_compat_protected(int id, void **data, size_t *bytes); /* false: no such id */

/* Whether an id is part of the next set. */
bool ftk_compat_chosen(int id);

/* Choose the regions of the next set.  Returns how many there are. */
size_t ftk_compat_choose(enum ftk_compat_mode mode, const int *ids, size_t n);

/* The restored set, until ftk_compat_forget(). */
bool ftk_compat_has_saved(void);
bool ftk_compat_saved_bytes(int id, size_t *bytes); /* false: the set has no such id */
/* Copy regions of the restored set to the protected memory.  A line names what does not fit. */
bool ftk_compat_restore(enum ftk_compat_mode mode, const int *ids, size_t n);
/* Whether just the ids of the restored set are protected, with the same sizes. */
bool ftk_compat_same_ids(void);
/* Whether all ids of the restored set have been copied to memory that is still protected. */
bool ftk_compat_all_restored(void);
/* How many ids the restored set has, or how many of them are counters, and how many of these do not
 * have the bytes of the set. */
size_t ftk_compat_compare(bool counters, size_t *changed);
void ftk_compat_forget(void);

/* ---- the files of the peers: settings.c ---------------------------------------------- */

enum { FTK_COMPAT_INI_BYTES = 16384 };

/* Called for each line KEY = VALUE.  section is "" before the first one. */
typedef void ftk_compat_key_fn(const char *section, const char *key, const char *value, void *arg);

/* Read a file of lines KEY = VALUE, with sections in brackets, and comments behind # and ; at the
 * begin of a line or behind a blank.  false: it cannot be read, or a line or a value is too long;
 * errno says which. */
bool ftk_compat_read(const char *path, ftk_compat_key_fn *fn, void *arg);

/* Append to the text of an INI file.  Text that has no room makes an INI file that is refused. */
__attribute__((format(printf, 2, 3))) void ftk_compat_ini(char *ini, const char *format, ...);

/* The text that makes ftkit_open() fail on all ranks: this rank cannot use its settings. */
void ftk_compat_ini_refuse(char *ini);

/* Begin the text of an INI file: repair with the message log, where the MPI has one and
 * FTKIT_LOG_ENABLED says so; otherwise no repair.  log: whether the log is on without this
 * variable.  The text ends inside of the section recover. */
void ftk_compat_ini_begin(char *ini, bool log);

/* Whether an INI file can have this path as a value: a comment would end it. */
bool ftk_compat_nameable(const char *path);

/* Make a directory, unless it is there. */
bool ftk_compat_directory(const char *path);

#endif

/* Declarations that the commands on directories of sets share: ls, show, verify, repair, prune,
 * export, teams, report.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_SETS_H
#define FTKIT_TOOLS_SETS_H

#include <sys/stat.h>

#include "store/durable/sets.h"
#include "tools.h"

/* ---- the commands -------------------------------------------------------------------- */
int ftk_status_main(int argc, char **argv);
int ftk_halt_main(int argc, char **argv);
void ftk_status_usage(FILE *out);
void ftk_halt_usage(FILE *out);
int ftk_ls_main(int argc, char **argv);
int ftk_show_main(int argc, char **argv);
int ftk_verify_main(int argc, char **argv);
int ftk_repair_main(int argc, char **argv);
int ftk_prune_main(int argc, char **argv);
int ftk_export_main(int argc, char **argv);
int ftk_teams_main(int argc, char **argv);
int ftk_report_main(int argc, char **argv);
int ftk_plan_main(int argc, char **argv);
int ftk_sim_main(int argc, char **argv);
int ftk_failures_main(int argc, char **argv);
void ftk_ls_usage(FILE *out);
void ftk_show_usage(FILE *out);
void ftk_verify_usage(FILE *out);
void ftk_repair_usage(FILE *out);
void ftk_prune_usage(FILE *out);
void ftk_export_usage(FILE *out);
void ftk_teams_usage(FILE *out);
void ftk_report_usage(FILE *out);
void ftk_plan_usage(FILE *out);
void ftk_sim_usage(FILE *out);
void ftk_failures_usage(FILE *out);

/* ---- options (sets.c) ---------------------------------------------------------------- */

enum {
    OPT_JSON = 1,
    OPT_CONTEXT = 2,
    OPT_RANK = 4,
    OPT_OUTPUT = 8,
    OPT_FORMAT = 16,
    OPT_KEEP = 32,
    OPT_INCOMPLETE = 64,
    OPT_DRY_RUN = 128,
    OPT_SLOTS = 256,
    OPT_SIZE = 512,
    OPT_TEAMS = 1024,
    OPT_PER_NODE = 2048,
    OPT_FILE = 4096,
    OPT_RUN = 8192,
    OPT_PROGRESS = 16384,
    OPT_WAIT = 32768
};
struct ftk_opts {
    bool json, incomplete, dry_run, slots, progress, wait;
    const char *context, *output, *format, *file, *run;
    int rank, keep, size, teams, per_node; /* -1: not given */
    char **args;                           /* arguments that are not options */
    int nargs;
};
/* allowed: a sum of OPT_...  0: go on; else the command is to end with the result less one as
 * exit code. */
int ftk_opts_parse(int argc, char **argv, int allowed, ftk_usage_fn *usage, struct ftk_opts *o);
/* Check that the arguments are these: names such as "DIR SET", of which the first `least` are
 * needed.  0, or TOOL_USAGE after a message. */
int ftk_opts_args(const struct ftk_opts *o, ftk_usage_fn *usage, int least, const char *names);

/* ---- the sets of a command (sets.c) -------------------------------------------------- */

/* A directory, and the contexts in it that the command works on. */
struct ftk_where {
    char dir[FTK_PATH_MAX]; /* contains <context>.ftkit */
    char (*contexts)[FTKIT_NAME_MAX + 1];
    size_t n;
    uint64_t set; /* the path named the directory of this set; else 0 */
};

/* Find the contexts of path.  path is a directory of sets, one <name>.ftkit in such a directory,
 * the directory of one set, or a link to one of these.  only, unless NULL: the one context to
 * find.  0, or an exit code after a message; TOOL_USAGE: the directory has no context. */
int ftk_where_find(const char *path, const char *only, struct ftk_where *w);
void ftk_where_free(struct ftk_where *w);
/* If the path names the directory of one set, make this set the only SET among the arguments.
 * takes: the command has an argument SET.  0, or an exit code after a message. */
int ftk_where_set(const struct ftk_where *w, struct ftk_opts *o, bool takes);
/* Check that there is exactly one context.  0, or an exit code after a message. */
int ftk_where_single(const struct ftk_where *w);

/* Parse "12", "set-0000000012", or "newest", which becomes 0.  0, or an exit code after a
 * message. */
int ftk_set_number(const char *text, uint64_t *set);
/* The sets that the arguments after DIR name, each once; sets has room for all arguments.  There
 * is one context.  0, or an exit code after a message about a newest set that does not exist. */
int ftk_sets_named(const struct ftk_where *w, const struct ftk_opts *o, uint64_t *sets, size_t *n);
/* Say why a set cannot be read, and if there is no such set, how to find the others. */
void ftk_set_missing(const char *dir, int rc);
/* The newest complete set of a context.  0, or an exit code after a message. */
int ftk_set_newest(const char *dir, const char *context, uint64_t *set);

/* ---- slots of a node (slots.c) ------------------------------------------------------- */
/* Called with a slot of this user, open for reading; returns an exit code. */
typedef int ftk_slot_fn(const char *path, int fd, const struct stat *st, void *arg);
/* Call fn for each slot in the directory o->args[0], or in /dev/shm; an exit code. */
int ftk_slots_each(const struct ftk_opts *o, ftk_slot_fn *fn, void *arg);
/* List the slots; whole: also read every byte.  The exit code of the command. */
int ftk_slots_list(const struct ftk_opts *o, bool whole);

/* Print "ftkit <command>: ..." on standard error. */
void ftk_tool_name(const char *command);
void ftk_tool_say(const char *fmt, ...) FTK_PRINTF(1, 2);
/* A detail text, without the place in the source and without unprintable bytes.  The result is
 * valid until the next call. */
const char *ftk_tool_why(const char *detail);
const char *ftk_state_name(int state);
/* "2026-01-31T12:00:00Z" */
void ftk_time_text(int64_t s, char buf[32]);
/* "1.5 GiB" */
void ftk_bytes_text(uint64_t bytes, char buf[32]);
/* End of a command: code, or TOOL_FAIL when the output could not be written. */
int ftk_tool_end(int code);

/* ---- progress (progress.c) --------------------------------------------------------------
 * When a command works for longer than a second, a line on standard error shows its progress: on
 * a terminal one line that is drawn again and at last erased, elsewhere lines, and only if they
 * were asked for. */
void ftk_progress_begin(bool asked);
/* The work that follows, and the bytes that it reads; 0: not known. */
void ftk_progress_work(uint64_t total, const char *fmt, ...) FTK_PRINTF(2, 3);
void ftk_progress_clear(void); /* erase the line, before anything else is printed */
/* For isolate.c.  Draw if it is time to; milliseconds until the next time, -1: never. */
int ftk_progress_turn(pid_t pid);
void ftk_progress_done(uint64_t bytes);
void ftk_progress_child(void);

/* ---- JSON (json.c) ----------------------------------------------------------------------
 * The writer adds commas and indentation. */
struct ftk_json {
    FILE *out;
    int depth;
    bool first; /* no element yet at this depth */
};
/* name NULL: an element of an array */
void ftk_json_open(struct ftk_json *j, const char *name, char bracket);
void ftk_json_close(struct ftk_json *j, char bracket);
void ftk_json_text(struct ftk_json *j, const char *name, const char *text);
void ftk_json_uint(struct ftk_json *j, const char *name, uint64_t v);
void ftk_json_int(struct ftk_json *j, const char *name, int64_t v);
void ftk_json_real(struct ftk_json *j, const char *name, double v);
void ftk_json_bool(struct ftk_json *j, const char *name, bool v);
void ftk_json_null(struct ftk_json *j, const char *name);

/* ---- reading in a process of its own (isolate.c) ----------------------------------------
 * HDF5 may crash or loop for ever on a malicious file.  So fn runs in a child process.  The
 * parent gets the result of fn, and the bytes that fn has written to out, malloc'd. */
struct ftk_isolated {
    char *text;
    size_t bytes;
    int code;     /* result of fn */
    char why[96]; /* why the child failed; "": fn has returned */
};
typedef int ftk_isolated_fn(void *arg, FILE *out);
/* bytes: size of the files that fn reads; the time limit of the child grows with it. */
void ftk_isolate(ftk_isolated_fn *fn, void *arg, uint64_t bytes, struct ftk_isolated *r);

/* Make the files of a region in the new directory path: those of a rank, or with rank -1 those that
 * all ranks have written together.  Returns an exit code.  bytes: as for ftk_isolate(). */
int ftk_export_files(const char *dir, const struct ftk_manifest *m, const char *region, int rank,
    const char *path, uint64_t bytes);

#endif

/* What the commands on directories of sets share: ls, show, verify, repair, prune,
 * export.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_SETS_H
#define FTKIT_TOOLS_SETS_H

#include <sys/stat.h>

#include "store/h5/h5_offline.h"
#include "tools.h"

/* ---- the commands -------------------------------------------------------------------- */
int ftk_ls_main(int argc, char **argv);
int ftk_show_main(int argc, char **argv);
int ftk_verify_main(int argc, char **argv);
int ftk_repair_main(int argc, char **argv);
int ftk_prune_main(int argc, char **argv);
int ftk_export_main(int argc, char **argv);
int ftk_teams_main(int argc, char **argv);
void ftk_ls_usage(FILE *out);
void ftk_show_usage(FILE *out);
void ftk_verify_usage(FILE *out);
void ftk_repair_usage(FILE *out);
void ftk_prune_usage(FILE *out);
void ftk_export_usage(FILE *out);
void ftk_teams_usage(FILE *out);

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
    OPT_FILE = 4096
};
struct ftk_opts {
    bool json, incomplete, dry_run, slots;
    const char *context, *output, *format, *file;
    int rank, keep, size, teams, per_node; /* -1: not given */
    char **args;                           /* what is not an option */
    int nargs;
};
/* allowed: of OPT_...; 0, or an exit code plus one when the command is to end with it. */
int ftk_opts_parse(
    int argc, char **argv, int allowed, void (*usage)(FILE *out), struct ftk_opts *o);

/* ---- which sets are meant (sets.c) --------------------------------------------------- */

/* A directory and the contexts in it that are asked for. */
struct ftk_where {
    char dir[FTK_PATH_MAX]; /* holds <context>.ftkit */
    char (*contexts)[FTKIT_NAME_MAX + 1];
    size_t n;
    uint64_t set; /* the path was that of this set's own directory; else 0 */
};

/* Find the contexts of path, which is a directory of sets, one <name>.ftkit in it, the own
 * directory of a set, or a link to one of these; only, when not NULL, names the context that
 * is meant.  0, or an exit code after a message; a directory without any is TOOL_USAGE. */
int ftk_where_find(const char *path, const char *only, struct ftk_where *w);
void ftk_where_free(struct ftk_where *w);
/* A path that is the own directory of a set becomes the only SET of the arguments; takes says
 * whether the command has such an argument.  0, or an exit code after a message. */
int ftk_where_set(const struct ftk_where *w, struct ftk_opts *o, bool takes);
/* There must be one context.  0, or an exit code after a message. */
int ftk_where_single(const struct ftk_where *w);

/* "12", "set-0000000012", or "newest", which is 0. */
int ftk_set_number(const char *text, uint64_t *set);
/* The newest complete set of a context, or an exit code after a message. */
int ftk_set_newest(const char *dir, const char *context, uint64_t *set);

/* ---- what is in the memory of a node (slots.c) --------------------------------------- */
/* A file of this user, open for reading; an exit code. */
typedef int ftk_slot_fn(const char *path, int fd, const struct stat *st, void *arg);
/* Call fn for the slots in the first argument, or /dev/shm; an exit code. */
int ftk_slots_each(const struct ftk_opts *o, ftk_slot_fn *fn, void *arg);
/* List them; whole: and read every byte.  The command's exit code. */
int ftk_slots_list(const struct ftk_opts *o, bool whole);

/* Says "ftkit <command>: ..." on standard error. */
void ftk_tool_name(const char *command);
void ftk_tool_say(const char *fmt, ...) FTK_PRINTF(1, 2);
/* The thread's detail, or a text of one, without the place in the source. */
const char *ftk_tool_why(const char *detail);
const char *ftk_state_name(int state);
/* "2026-01-31T12:00:00Z" */
void ftk_time_text(int64_t s, char buf[32]);
/* "1.5 GiB" */
void ftk_bytes_text(uint64_t bytes, char buf[32]);
/* End of a command: what was printed must have arrived. */
int ftk_tool_end(int code);

/* ---- the manual page (man.c) --------------------------------------------------------- */
void ftk_man_begin(FILE *out);
void ftk_man_command(FILE *out, const char *name, void (*usage)(FILE *out));
void ftk_man_end(FILE *out);

/* ---- JSON (json.c) ----------------------------------------------------------------------
 * Commas and indentation are kept in the writer. */
struct ftk_json {
    FILE *out;
    int depth;
    bool first; /* nothing yet at this depth */
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
 * HDF5 may crash on a file that was made to do harm, or never come back.  fn runs in a
 * child; what it writes to out comes back, malloc'd, with its result. */
struct ftk_isolated {
    char *text;
    size_t bytes;
    int code;     /* what fn returned */
    char why[96]; /* how the child died, "" when it returned */
};
typedef int ftk_isolated_fn(void *arg, FILE *out);
/* The child has time for this many bytes of files. */
void ftk_isolate(ftk_isolated_fn *fn, void *arg, uint64_t bytes, struct ftk_isolated *r);

#endif

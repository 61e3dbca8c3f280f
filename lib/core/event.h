/* The event log: one JSON object a line (docs/events.md lists the events and their members).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All processes of a node append to one file.  A line is one write() to a file that was opened
 * with O_APPEND, so lines of different processes do not mix.  SIGKILL ends a write() between two
 * pages: a process that is killed in that moment leaves a part of its line.  So a line begins with
 * its line feed, and the next line stands for itself.  While the log is off, ftk_event_begin()
 * costs one test.
 *
 *     struct ftk_event e;
 *     ftk_event_of(&e, ctx, "set");
 *     ftk_event_int(&e, "set", 7);
 *     ftk_event_end(&e);
 *
 * Threads: any; a struct ftk_event belongs to one thread. */
#ifndef FTK_EVENT_H
#define FTK_EVENT_H

#include "context.h"

struct ftk_event {
    bool on;  /* false: the functions do nothing */
    char *at; /* the text: small, or memory of the heap when it is longer */
    size_t n; /* bytes of the text */
    size_t room;
    char small[480];
};

/* Begin to write to a file of the directory, which is made if its parent exists; "" or NULL: no
 * event log.  The file is that of the node.  access: who may read what is made (access.h).  Lines
 * without a context have the first context that calls this function.  Returns 0 or an errno;
 * EPERM: the file is that of another user. */
int ftk_event_open(const char *directory, const char *context, int access);
/* The errno that ended the log since the last call of this function, 0: none. */
int ftk_event_trouble(void);
/* Whether there is an event log. */
bool ftk_event_on(void);

/* Begin a line.  context NULL: the first context of this process, and its rank. */
void ftk_event_begin(struct ftk_event *e, const char *context, int rank, const char *event);
static inline void ftk_event_of(struct ftk_event *e, const struct ftkit_ctx *ctx, const char *event)
{
    ftk_event_begin(e, ctx->cfg.name, ctx->rank, event);
}
void ftk_event_int(struct ftk_event *e, const char *key, int64_t value);
void ftk_event_bool(struct ftk_event *e, const char *key, bool value);
void ftk_event_seconds(struct ftk_event *e, const char *key, double seconds);
/* In joules, in the same form. */
static inline void ftk_event_joules(struct ftk_event *e, const char *key, double joules)
{
    ftk_event_seconds(e, key, joules);
}
void ftk_event_text(struct ftk_event *e, const char *key, const char *text);
/* A list of numbers; key NULL: inside another list. */
void ftk_event_list(struct ftk_event *e, const char *key);
void ftk_event_item(struct ftk_event *e, int64_t value);
void ftk_event_list_end(struct ftk_event *e);
/* Write the line. */
void ftk_event_end(struct ftk_event *e);

#endif

/* Sends and receives as kinds of requests: in messages of the library, and in a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_MESSAGE_H
#define FTK_LOG_MESSAGE_H

#include "log/request/request.h"

struct ftk_saving;
struct ftk_loading;

/* As ftk_req_describe(), of a send or a receive; what: "send", towards: "to". */
void ftk_message_describe(
    const struct ftk_req *r, const char *what, const char *towards, char *text, size_t room);

/* A send or a receive in a set (saved.c, req_ops.h).  *p: its memory; NULL: there is none. */
int ftk_message_save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head, bool receives);
bool ftk_message_is_sane(const uint64_t *head, bool receives);
bool ftk_message_is_same(const struct ftk_req *r, const uint64_t *head);
int ftk_message_load(struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, void **p);

#endif

/* What a send has besides the arguments of all requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_REQ_SEND_H
#define FTK_LOG_REQ_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftk_entry;

struct ftk_req_send {
    const void *buf;
    bool sync;               /* a synchronous send */
    bool buffered;           /* a persistent buffered send: complete as soon as it is started */
    size_t owned;            /* the send reads so many bytes of own; 0: it reads buf */
    struct ftk_entry *entry; /* its log entry; NULL: not logged */
    uint64_t hold_round;     /* HELD: until this round of determinants is acknowledged */
    size_t handles;          /* of a shared request: so many handles the program has */
};

#endif

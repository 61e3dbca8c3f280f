/* Unexpected messages, matched messages, and the set-up log.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/p2p.h"
#include "log/part.h"

/* ---- unexpected messages ------------------------------------------------------------- */

struct ftk_unexp *ftk_unexp_new(int context, int source, int tag, size_t bytes)
{
    struct ftk_unexp *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->data = malloc(bytes ? bytes : 1);
    if (!h->data) {
        free(h);
        return NULL;
    }
    h->context = context;
    h->source = source;
    h->tag = tag;
    h->bytes = bytes;
    return h;
}

void ftk_unexp_free(struct ftk_unexp *h)
{
    if (h) {
        free(h->deps);
        free(h->data);
    }
    free(h);
}

static void append(struct ftk_unexp **first, struct ftk_unexp **last, struct ftk_unexp *h)
{
    h->next = NULL;
    if (*last)
        (*last)->next = h;
    else
        *first = h;
    *last = h;
}

static void free_list(struct ftk_unexp **first, struct ftk_unexp **last)
{
    while (*first) {
        struct ftk_unexp *h = *first;
        *first = h->next;
        ftk_unexp_free(h);
    }
    *last = NULL;
}

void ftk_unexp_add(struct ftk_unexp *h)
{
    append(&ftk_log.unexp.first, &ftk_log.unexp.last, h);
    ftk_log.unexp.n++;
}

void ftk_unexp_return(struct ftk_unexp *h)
{
    struct ftk_unexp_list *l = &ftk_log.unexp;
    struct ftk_unexp **at = &l->first;
    while (
        *at && ((*at)->context != h->context || (*at)->source != h->source || (*at)->tag != h->tag))
        at = &(*at)->next;
    h->next = *at;
    *at = h;
    if (!h->next)
        l->last = h;
    l->n++;
}

static void take_out(struct ftk_unexp *h, struct ftk_unexp *before)
{
    struct ftk_log *l = &ftk_log;
    if (before)
        before->next = h->next;
    else
        l->unexp.first = h->next;
    if (l->unexp.last == h)
        l->unexp.last = before;
    l->unexp.n--;
    h->next = NULL;
}

void ftk_unexp_take(struct ftk_unexp *h)
{
    struct ftk_unexp *before = NULL, *at = ftk_log.unexp.first;
    while (at && at != h) {
        before = at;
        at = at->next;
    }
    if (at)
        take_out(h, before);
}

struct ftk_unexp *ftk_unexp_match(const struct ftk_envelope *want, bool out)
{
    struct ftk_unexp *before = NULL;
    for (struct ftk_unexp *h = ftk_log.unexp.first; h; before = h, h = h->next) {
        if (!ftk_unexp_is_for(h, want))
            continue;
        if (out)
            take_out(h, before);
        return h;
    }
    return NULL;
}

struct ftk_unexp *ftk_unexp_of_receive(const struct ftk_envelope *want, uint32_t receive)
{
    struct ftk_unexp *h = ftk_log.unexp.first;
    while (h && !(h->receive == receive && ftk_unexp_is_for(h, want)))
        h = h->next;
    return h;
}

void ftk_unexp_clear(void)
{
    free_list(&ftk_log.unexp.first, &ftk_log.unexp.last);
    ftk_log.unexp.n = 0;
}

/* A receive of a collective gets the first message that matches.  Receives may complete in another
 * order than they were posted, so the set-up log is in the order of posting. */
void ftk_setup_log_add(struct ftk_unexp *h)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_unexp **at = &l->setup_log.first;
    if (!l->setup_log.last || l->setup_log.last->seq <= h->seq) {
        append(&l->setup_log.first, &l->setup_log.last, h);
        return;
    }
    while ((*at)->seq <= h->seq)
        at = &(*at)->next;
    h->next = *at;
    *at = h;
}

void ftk_setup_log_clear(void)
{
    free_list(&ftk_log.setup_log.first, &ftk_log.setup_log.last);
}

/* ---- messages that the program has matched and not received yet ---------------------- */

static struct ftk_unexp *matched;
static int matches;

void ftk_matched_add(struct ftk_unexp *h)
{
    h->next = matched;
    h->number = matches++ % FTK_HANDLES_FROM;
    matched = h;
}

struct ftk_unexp *ftk_matched_take(MPI_Message message)
{
    for (struct ftk_unexp **p = &matched; *p; p = &(*p)->next) {
        struct ftk_unexp *h = *p;
        if ((MPI_Message)(void *)h != message)
            continue;
        *p = h->next;
        return h;
    }
    return NULL;
}

int ftk_matched_number(MPI_Message message)
{
    for (const struct ftk_unexp *h = matched; h; h = h->next)
        if ((MPI_Message)(const void *)h == message)
            return h->number;
    return -1;
}

struct ftk_unexp *ftk_matched_numbered(int number)
{
    struct ftk_unexp *h = matched;
    while (h && h->number != number)
        h = h->next;
    return h;
}

const struct ftk_unexp *ftk_matched_first(void)
{
    return matched;
}

void ftk_matched_back(struct ftk_unexp *h)
{
    h->next = matched;
    matched = h;
    if (matches <= h->number)
        matches = h->number + 1;
}

void ftk_matched_clear(void)
{
    while (matched) {
        struct ftk_unexp *h = matched;
        matched = h->next;
        ftk_unexp_free(h);
    }
}

/* ---- the set-up log: a drained message that set-up has received ---------------------- */

int ftk_p2p_log_setup(const struct ftk_unexp *h, uint64_t seq, uint32_t number)
{
    struct ftk_unexp *copy = ftk_unexp_new(h->context, h->source, h->tag, h->bytes);
    if (!copy)
        return MPI_ERR_NO_MEM;
    memcpy(copy->data, h->data, h->bytes);
    copy->seq = seq;
    copy->receive = number;
    ftk_setup_log_add(copy);
    return MPI_SUCCESS;
}

/* ---- the part ------------------------------------------------------------------------ */

static void close_lists(void)
{
    ftk_matched_clear();
    ftk_unexp_clear();
    ftk_setup_log_clear();
}

/* In a replay of set-up the unexpected messages are those of the set-up log. */
static int roll_back(const struct ftk_rollback *b)
{
    if (!b->in_set_up)
        ftk_unexp_clear();
    return FTKIT_OK;
}

const struct ftk_part ftk_part_unexp = {
    .forget = ftk_matched_clear, .close = close_lists, .roll_back = roll_back
};

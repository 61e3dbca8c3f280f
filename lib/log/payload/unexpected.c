/* Messages that are here before the program receives them, and those that set-up has received.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/p2p.h"

/* ---- messages that wait for the program ------------------------------------------------------*/

struct ftk_held *ftk_held_new(int context, int source, int tag, size_t bytes)
{
    struct ftk_held *h = calloc(1, sizeof *h);
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

void ftk_held_free(struct ftk_held *h)
{
    if (h) {
        free(h->letter);
        free(h->data);
    }
    free(h);
}

static void append(struct ftk_held **first, struct ftk_held **last, struct ftk_held *h)
{
    h->next = NULL;
    if (*last)
        (*last)->next = h;
    else
        *first = h;
    *last = h;
}

static void free_list(struct ftk_held **first, struct ftk_held **last)
{
    while (*first) {
        struct ftk_held *h = *first;
        *first = h->next;
        ftk_held_free(h);
    }
    *last = NULL;
}

void ftk_held_add(struct ftk_held *h)
{
    append(&ftk_log.held_first, &ftk_log.held_last, h);
    ftk_log.nheld++;
}

static void take_out(struct ftk_held *h, struct ftk_held *before)
{
    struct ftk_log *l = &ftk_log;
    if (before)
        before->next = h->next;
    else
        l->held_first = h->next;
    if (l->held_last == h)
        l->held_last = before;
    l->nheld--;
    h->next = NULL;
}

void ftk_held_take(struct ftk_held *h)
{
    struct ftk_held *before = NULL, *at = ftk_log.held_first;
    while (at && at != h) {
        before = at;
        at = at->next;
    }
    if (at)
        take_out(h, before);
}

struct ftk_held *ftk_held_match(int context, int source, int tag, bool out)
{
    struct ftk_held *before = NULL;
    for (struct ftk_held *h = ftk_log.held_first; h; before = h, h = h->next) {
        if (h->context != context || (source != MPI_ANY_SOURCE && h->source != source)
            || (tag != MPI_ANY_TAG && h->tag != tag))
            continue;
        if (out)
            take_out(h, before);
        return h;
    }
    return NULL;
}

void ftk_held_clear(void)
{
    free_list(&ftk_log.held_first, &ftk_log.held_last);
    ftk_log.nheld = 0;
}

/* The first that matches is what a replacement gets, so of two receives that were complete in
 * another order than they were posted in the one that was posted first comes first. */
void ftk_journal_add(struct ftk_held *h)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_held **at = &l->journal_first;
    if (!l->journal_last || l->journal_last->stamp <= h->stamp) {
        append(&l->journal_first, &l->journal_last, h);
        return;
    }
    while ((*at)->stamp <= h->stamp)
        at = &(*at)->next;
    h->next = *at;
    *at = h;
}

void ftk_journal_clear(void)
{
    free_list(&ftk_log.journal_first, &ftk_log.journal_last);
}

/* ---- messages that the program has matched and not received yet ------------------------------*/

static struct ftk_held *matched;
static int matches;

void ftk_matched_add(struct ftk_held *h)
{
    h->next = matched;
    h->number = matches++ % FTK_HANDLES_FROM;
    matched = h;
}

struct ftk_held *ftk_matched_take(MPI_Message message)
{
    for (struct ftk_held **p = &matched; *p; p = &(*p)->next) {
        struct ftk_held *h = *p;
        if ((MPI_Message)(void *)h != message)
            continue;
        *p = h->next;
        return h;
    }
    return NULL;
}

int ftk_matched_number(MPI_Message message)
{
    for (const struct ftk_held *h = matched; h; h = h->next)
        if ((MPI_Message)(const void *)h == message)
            return h->number;
    return -1;
}

struct ftk_held *ftk_matched_numbered(int number)
{
    struct ftk_held *h = matched;
    while (h && h->number != number)
        h = h->next;
    return h;
}

bool ftk_matched_any(void)
{
    return matched != NULL;
}

void ftk_matched_clear(void)
{
    while (matched) {
        struct ftk_held *h = matched;
        matched = h->next;
        ftk_held_free(h);
    }
}

/* ---- a drawn message that set-up has received --------------------------------------*/

int ftk_p2p_journal(const struct ftk_held *h, uint64_t stamp)
{
    struct ftk_log *l = &ftk_log;
    if (l->ctx->where >= FTK_IN_LOOP || l->reborn)
        return MPI_SUCCESS;
    struct ftk_held *copy = ftk_held_new(h->context, h->source, h->tag, h->bytes);
    if (!copy)
        return MPI_ERR_NO_MEM;
    memcpy(copy->data, h->data, h->bytes);
    copy->stamp = stamp;
    ftk_journal_add(copy);
    return MPI_SUCCESS;
}

/* Unexpected messages, matched messages, and the set-up log.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/part.h"
#include "log/base/plane.h"

struct list {
    struct ftk_unexp *first, *last;
};
static struct list unexp, setup_log;

/* ---- unexpected messages ------------------------------------------------------------- */

struct ftk_unexp *ftk_unexp_first(void)
{
    return unexp.first;
}

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
    append(&unexp.first, &unexp.last, h);
    ftk_log.nunexp++;
}

void ftk_unexp_return(struct ftk_unexp *h)
{
    struct ftk_unexp **at = &unexp.first;
    while (
        *at && ((*at)->context != h->context || (*at)->source != h->source || (*at)->tag != h->tag))
        at = &(*at)->next;
    h->next = *at;
    *at = h;
    if (!h->next)
        unexp.last = h;
    ftk_log.nunexp++;
}

static void take_out(struct ftk_unexp *h, struct ftk_unexp *before)
{
    if (before)
        before->next = h->next;
    else
        unexp.first = h->next;
    if (unexp.last == h)
        unexp.last = before;
    ftk_log.nunexp--;
    h->next = NULL;
}

void ftk_unexp_take(struct ftk_unexp *h)
{
    struct ftk_unexp *before = NULL, *at = unexp.first;
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
    for (struct ftk_unexp *h = unexp.first; h; before = h, h = h->next) {
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
    struct ftk_unexp *h = unexp.first;
    while (h && !(h->receive == receive && ftk_unexp_is_for(h, want)))
        h = h->next;
    return h;
}

void ftk_unexp_clear(void)
{
    free_list(&unexp.first, &unexp.last);
    ftk_log.nunexp = 0;
}

/* A receive of a collective gets the first message that matches.  Receives may complete in another
 * order than they were posted, so the set-up log is in the order of posting. */
void ftk_setup_log_add(struct ftk_unexp *h)
{
    struct ftk_unexp **at = &setup_log.first;
    if (!setup_log.last || setup_log.last->seq <= h->seq) {
        append(&setup_log.first, &setup_log.last, h);
        return;
    }
    while ((*at)->seq <= h->seq)
        at = &(*at)->next;
    h->next = *at;
    *at = h;
}

const struct ftk_unexp *ftk_setup_log_first(void)
{
    return setup_log.first;
}

void ftk_setup_log_clear(void)
{
    free_list(&setup_log.first, &setup_log.last);
}

/* ---- messages that the program has matched and not received yet ---------------------- */

static struct ftk_unexp *matched;
static int matches;

static void enter(struct ftk_unexp *h, struct ftk_vcomm *vc)
{
    ftk_vcomm_keep(vc);
    h->vc = vc;
    h->next = matched;
    matched = h;
}

void ftk_matched_add(struct ftk_unexp *h, struct ftk_vcomm *vc)
{
    h->number = matches++ % FTK_HANDLES_FROM;
    enter(h, vc);
}

struct ftk_unexp *ftk_matched_take(MPI_Message message)
{
    for (struct ftk_unexp **p = &matched; *p; p = &(*p)->next) {
        struct ftk_unexp *h = *p;
        if ((MPI_Message)(void *)h != message)
            continue;
        *p = h->next;
        ftk_vcomm_let_go(h->vc); /* not deleted within this call */
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

void ftk_matched_back(struct ftk_unexp *h, struct ftk_vcomm *vc)
{
    enter(h, vc);
    if (matches <= h->number)
        matches = h->number + 1;
}

void ftk_matched_clear(void)
{
    while (matched) {
        struct ftk_unexp *h = matched;
        matched = h->next;
        ftk_vcomm_let_go(h->vc);
        ftk_unexp_free(h);
    }
}

/* ---- the set-up log: a drained message that set-up has received ---------------------- */

int ftk_setup_log_keep(const struct ftk_unexp *h, uint64_t seq, uint32_t number)
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

/* ---- lists of messages in a set ---------------------------------------------------------
 * Words of 64 bits for each message: context, source, tag with the number of its receive in set-up
 * above it, bytes, and the data. */

enum { CONTEXT, SOURCE, TAG, BYTES, HEAD };

static size_t data_words(uint64_t bytes)
{
    return (size_t)((bytes + 7) / 8);
}

size_t ftk_messages_words(const struct ftk_unexp *h)
{
    size_t words = 0;
    for (; h; h = h->next)
        words += HEAD + data_words(h->bytes);
    return words;
}

uint64_t *ftk_messages_write(uint64_t *w, const struct ftk_unexp *h)
{
    for (; h; h = h->next) {
        const size_t words = data_words(h->bytes);
        w[CONTEXT] = (uint64_t)h->context;
        w[SOURCE] = ftk_log_to_plane(h->source);
        w[TAG] = (uint64_t)(uint32_t)h->tag | (uint64_t)h->receive << 32;
        w[BYTES] = h->bytes;
        w += HEAD;
        if (words > 0)
            w[words - 1] = 0;
        memcpy(w, h->data, h->bytes);
        w += words;
    }
    return w;
}

const uint64_t *ftk_messages_pass(const uint64_t *w, const uint64_t *end, uint64_t n)
{
    for (; n > 0; n--) {
        if (end - w < HEAD || w[BYTES] > (uint64_t)(end - w - HEAD) * 8)
            return NULL;
        w += HEAD + data_words(w[BYTES]);
    }
    return w;
}

static int read_one(const uint64_t *w, struct ftk_unexp **out)
{
    if (!(ftk_context_is_one(w[CONTEXT]) || w[CONTEXT] == FTK_LOG_COLLS)
        || w[SOURCE] >= (uint64_t)ftk_log_plane_size() || (uint32_t)w[TAG] > INT32_MAX)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: a message is damaged");
    const int source = ftk_log_from_plane((int)w[SOURCE]);
    struct ftk_unexp *h =
        ftk_unexp_new((int)w[CONTEXT], source, (int)(uint32_t)w[TAG], (size_t)w[BYTES]);
    if (!h)
        return ftk_fail(FTKIT_ERR_NOMEM, "messages of the log");
    h->receive = (uint32_t)(w[TAG] >> 32);
    memcpy(h->data, w + HEAD, (size_t)w[BYTES]);
    *out = h;
    return FTKIT_OK;
}

int ftk_messages_read(const uint64_t *w, const uint64_t *end, void (*add)(struct ftk_unexp *h))
{
    while (w < end) {
        struct ftk_unexp *h = NULL;
        const uint64_t *next = ftk_messages_pass(w, end, 1);
        int rc = next ? read_one(w, &h)
                      : ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
        if (rc != FTKIT_OK)
            return rc;
        add(h);
        w = next;
    }
    return FTKIT_OK;
}

/* ---- the part ------------------------------------------------------------------------ */

static void close_lists(void)
{
    ftk_matched_clear();
    ftk_unexp_clear();
}

/* In a replay of set-up the unexpected messages are those of the set-up log. */
static int roll_back(const struct ftk_rollback *b)
{
    if (!b->in_set_up)
        ftk_unexp_clear();
    return FTKIT_OK;
}

static size_t words(void)
{
    return ftk_messages_words(unexp.first);
}

static uint64_t *save(uint64_t *w)
{
    return ftk_messages_write(w, unexp.first);
}

static int load(const struct ftk_section *in)
{
    ftk_unexp_clear();
    return ftk_messages_read(in->w, in->end, ftk_unexp_add);
}

const struct ftk_part ftk_part_unexp = { .forget = ftk_matched_clear,
    .close = close_lists,
    .roll_back = roll_back,
    .name = "unexp",
    .words = words,
    .save = save,
    .needed = true,
    .load = load };

/* ---- the part of the set-up log, which does not change after the first line ------------ */

static size_t set_up_words(void)
{
    return ftk_messages_words(setup_log.first);
}

static uint64_t *save_set_up(uint64_t *w)
{
    return ftk_messages_write(w, setup_log.first);
}

/* Only a replay of set-up takes it from the set. */
static int load_set_up(const struct ftk_section *in)
{
    if (!ftk_log_replays_setup())
        return ftk_messages_read(in->w, in->end, ftk_unexp_free);
    ftk_setup_log_clear();
    return ftk_messages_read(in->w, in->end, ftk_setup_log_add);
}

const struct ftk_part ftk_part_set_up_log = { .close = ftk_setup_log_clear,
    .name = "setuplog",
    .words = set_up_words,
    .save = save_set_up,
    .needed = true,
    .late = true,
    .load = load_set_up };

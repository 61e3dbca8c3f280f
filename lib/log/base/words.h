/* Lists of words of 64 bits, in which ranks describe their state to each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_WORDS_H
#define FTK_LOG_WORDS_H

#include "core/log_ops.h"

struct ftk_words {
    uint64_t *v; /* [n], room for [room]; owned */
    size_t n, room;
};

/* Append n words, which the caller fills; NULL: no memory. */
uint64_t *ftk_words_extend(struct ftk_words *w, size_t n);
/* Append one word.  FTKIT_ERR_NOMEM. */
int ftk_words_add(struct ftk_words *w, uint64_t value);
/* Copy the words to w; returns the address behind them. */
uint64_t *ftk_words_save(const struct ftk_words *from, uint64_t *w);
void ftk_words_free(struct ftk_words *w);

/* Collective over r->act: to [r->n] words of out are for each rank, in the order of ranks.  in gets
 * the words for this rank in the order of their senders; from [r->n]: how many come from each.
 * what: for error texts.  Codes of ftkit. */
int ftk_words_exchange(const struct ftk_log_repair *r, const struct ftk_words *out,
    const size_t *to, struct ftk_words *in, size_t *from, const char *what);

#endif

/* The last word of a process (see last_word.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "last_word.h"

void ftk_last_word_of(struct ftk_dog_page *page, int job, int world_rank, int reason, int code)
{
    const unsigned number = atomic_fetch_add(&page->nwords, 1);
    struct ftk_dog_last *w = &page->words[number % FTK_DOG_WORDS];
    atomic_store(&w->number, 0);
    atomic_store(&w->job, job);
    atomic_store(&w->world_rank, world_rank);
    atomic_store(&w->reason, reason);
    atomic_store(&w->code, code);
    atomic_store(&w->number, number + 1);
}

void ftk_last_word(struct ftk_watchdog *dog, int reason, int code)
{
    if (dog)
        ftk_last_word_of(dog->page, dog->own->job, dog->own->world_rank, reason, code);
}

bool ftk_last_word_find(
    const struct ftk_watchdog *dog, int job, int world_rank, int *reason, int *code)
{
    const unsigned n = dog ? atomic_load(&dog->page->nwords) : 0;
    for (unsigned i = n; i > 0 && n - i < FTK_DOG_WORDS; i--) {
        const struct ftk_dog_last *w = &dog->page->words[(i - 1) % FTK_DOG_WORDS];
        if (atomic_load(&w->number) != i || atomic_load(&w->job) != job
            || atomic_load(&w->world_rank) != world_rank)
            continue;
        *reason = atomic_load(&w->reason);
        *code = atomic_load(&w->code);
        return atomic_load(&w->number) == i; /* not overwritten meanwhile */
    }
    return false;
}

/* Protected memory: a table that the program changes at any time, saved as one region.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The peers let each rank protect other ids, move and resize memory, and take ids back between two
 * checkpoints.  Regions of ftkit have the same names on all ranks, for the whole job.  So the table
 * is one region, whose callbacks read the table when a set is written: no address is kept
 * elsewhere.  What a set holds is
 *
 *     struct head, struct item [n], then the bytes of the items, one after the other
 *
 * At a start the set comes before the program has protected its memory.  So the table keeps a copy
 * until the first set that the process writes. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

struct region {
    int id;
    bool chosen;   /* of the next set */
    bool counter;  /* one whole number */
    bool restored; /* from the set of the start */
    void *data;    /* of the program */
    size_t bytes;
};

static struct {
    struct region *list; /* [n], in the order in which the program has protected them */
    size_t n, room;
} table;

#define MAGIC UINT64_C(0x315354435054464b) /* the version is in it */

struct head {
    uint64_t magic, n;
};
struct item {
    int64_t id;
    uint64_t bytes;
};
_Static_assert(sizeof(struct head) == 16 && sizeof(struct item) == 16, "these are in files");

static struct {
    char *data; /* as it was packed; NULL: none */
    size_t bytes;
} saved;

/* ---- the table ----------------------------------------------------------------------- */

static struct region *find(int id)
{
    for (size_t i = 0; i < table.n; i++)
        if (table.list[i].id == id)
            return &table.list[i];
    return NULL;
}

bool ftk_compat_protect(int id, void *data, size_t bytes, bool counter)
{
    struct region *r = find(id);
    bool chosen = false;
    if (!r && table.n == table.room) {
        const size_t room = table.room == 0 ? 16 : 2 * table.room;
        struct region *list = realloc(table.list, room * sizeof *list);
        if (!list)
            return false;
        table.list = list;
        table.room = room;
    }
    if (!r)
        r = &table.list[table.n++];
    else
        chosen = r->chosen; /* a set that is being written keeps the id */
    *r = (struct region){
        .id = id, .chosen = chosen, .counter = counter, .data = data, .bytes = bytes
    };
    return true;
}

bool ftk_compat_unprotect(int id)
{
    struct region *r = find(id);
    if (!r)
        return false;
    const size_t behind = table.n - (size_t)(r - table.list) - 1;
    memmove(r, r + 1, behind * sizeof *r);
    table.n--;
    return true;
}

void ftk_compat_unprotect_all(void)
{
    table.n = 0;
}

bool ftk_compat_protected(int id, void **data, size_t *bytes)
{
    const struct region *r = find(id);
    if (!r)
        return false;
    *data = r->data;
    *bytes = r->bytes;
    return true;
}

/* Whether a call with these ids is about this one. */
static bool concerns(enum ftk_compat_mode mode, const int *ids, size_t n, int64_t id)
{
    bool listed = false;
    for (size_t i = 0; i < n && !listed; i++)
        listed = ids[i] == id;
    return mode == FTK_COMPAT_ALL || (mode == FTK_COMPAT_SOME) == listed;
}

bool ftk_compat_chosen(int id)
{
    const struct region *r = find(id);
    return r && r->chosen;
}

size_t ftk_compat_choose(enum ftk_compat_mode mode, const int *ids, size_t n)
{
    size_t chosen = 0;
    for (size_t i = 0; i < table.n; i++) {
        table.list[i].chosen = concerns(mode, ids, n, table.list[i].id);
        chosen += table.list[i].chosen;
    }
    return chosen;
}

/* ---- what a set has ------------------------------------------------------------------ */

static int measure(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = sizeof(struct head);
    for (size_t i = 0; i < table.n; i++)
        if (table.list[i].chosen)
            *bytes += sizeof(struct item) + table.list[i].bytes;
    return ftk_compat.bad;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    struct head head = { .magic = MAGIC };
    size_t expected;
    (void)arg;
    if (measure(NULL, &expected) != 0 || expected != bytes)
        return 1;
    for (size_t i = 0; i < table.n; i++)
        head.n += table.list[i].chosen;
    char *to = memcpy(buf, &head, sizeof head);
    char *data = to + sizeof head + head.n * sizeof(struct item);
    to += sizeof head;
    for (size_t i = 0; i < table.n; i++) {
        const struct region *r = &table.list[i];
        if (!r->chosen)
            continue;
        memcpy(to, &(struct item){ r->id, r->bytes }, sizeof(struct item));
        to += sizeof(struct item);
        if (r->bytes > 0)
            memcpy(data, r->data, r->bytes);
        data += r->bytes;
    }
    return 0;
}

/* Items of a packed region, one after the other. */
struct walk {
    const char *item, *data;
    uint64_t left;
};

static bool walk_begin(const void *buf, size_t bytes, struct walk *w)
{
    struct head head;
    uint64_t sum = sizeof head;
    if (bytes < sizeof head)
        return false;
    memcpy(&head, buf, sizeof head);
    if (head.magic != MAGIC || head.n > (bytes - sizeof head) / sizeof(struct item))
        return false;
    *w = (struct walk){ .item = (const char *)buf + sizeof head, .left = head.n };
    w->data = w->item + head.n * sizeof(struct item);
    sum += head.n * sizeof(struct item);
    for (uint64_t i = 0; i < head.n; i++) {
        struct item it;
        memcpy(&it, w->item + i * sizeof it, sizeof it);
        if (it.id < INT_MIN || it.id > INT_MAX || it.bytes > bytes - sum)
            return false;
        sum += it.bytes;
    }
    return sum == bytes;
}

static bool walk_next(struct walk *w, struct item *it, const char **data)
{
    if (w->left == 0)
        return false;
    memcpy(it, w->item, sizeof *it);
    *data = w->data;
    w->item += sizeof *it;
    w->data += it->bytes;
    w->left--;
    return true;
}

/* A rollback: the program goes on with its memory.  What has no place is found by the caller. */
static void unpack_in_place(struct walk w)
{
    struct item it;
    const char *data;
    while (walk_next(&w, &it, &data)) {
        const struct region *r = find((int)it.id);
        if (!r || r->bytes < it.bytes)
            ftk_compat.unfit = true;
        else if (it.bytes > 0)
            memcpy(r->data, data, it.bytes);
    }
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    struct walk w;
    (void)arg;
    if (!walk_begin(buf, bytes, &w))
        return 1;
    if (ftk_compat.finishing)
        return 0;
    if (ftk_compat.recovered) {
        unpack_in_place(w);
        return 0;
    }
    ftk_compat_forget();
    saved.data = malloc(bytes);
    if (!saved.data)
        return 1;
    memcpy(saved.data, buf, bytes);
    saved.bytes = bytes;
    return 0;
}

int ftk_compat_register(ftkit_ctx *ft)
{
    const ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    return ftkit_register_serializer(ft, "protected", &ops, NULL);
}

/* ---- the restored set ---------------------------------------------------------------- */

bool ftk_compat_has_saved(void)
{
    return saved.data != NULL;
}

void ftk_compat_forget(void)
{
    free(saved.data);
    saved.data = NULL;
    saved.bytes = 0;
}

bool ftk_compat_saved_bytes(int id, size_t *bytes)
{
    struct walk w;
    struct item it;
    const char *data;
    if (!saved.data || !walk_begin(saved.data, saved.bytes, &w))
        return false;
    while (walk_next(&w, &it, &data)) {
        if (it.id == id) {
            *bytes = it.bytes;
            return true;
        }
    }
    return false;
}

/* Whether the program has the memory for an item. */
static bool fits(const struct item *it)
{
    const struct region *r = find((int)it->id);
    if (!r)
        ftk_compat_say("the checkpoint has id %d, which is not protected", (int)it->id);
    else if (r->bytes < it->bytes)
        ftk_compat_say(
            "id %d has %zu bytes, the checkpoint has %zu", r->id, r->bytes, (size_t)it->bytes);
    return r && r->bytes >= it->bytes;
}

bool ftk_compat_restore(enum ftk_compat_mode mode, const int *ids, size_t n)
{
    struct walk w;
    struct item it;
    const char *data;
    bool good = saved.data && walk_begin(saved.data, saved.bytes, &w);
    if (!good)
        return false;
    for (struct walk all = w; walk_next(&all, &it, &data);) /* all or nothing */
        good = (!concerns(mode, ids, n, it.id) || fits(&it)) && good;
    while (good && walk_next(&w, &it, &data)) {
        if (!concerns(mode, ids, n, it.id))
            continue;
        struct region *r = find((int)it.id);
        if (it.bytes > 0)
            memcpy(r->data, data, it.bytes);
        r->restored = true;
    }
    return good;
}

bool ftk_compat_same_ids(void)
{
    struct walk w;
    struct item it;
    const char *data;
    size_t n = 0;
    bool same = saved.data && walk_begin(saved.data, saved.bytes, &w);
    while (same && walk_next(&w, &it, &data)) {
        const struct region *r = find((int)it.id);
        same = r && r->bytes == it.bytes;
        n++;
    }
    return same && n == table.n;
}

bool ftk_compat_all_restored(void)
{
    struct walk w;
    struct item it;
    const char *data;
    bool all = saved.data && walk_begin(saved.data, saved.bytes, &w);
    while (all && walk_next(&w, &it, &data)) {
        const struct region *r = find((int)it.id);
        all = r && r->restored;
    }
    return all;
}

size_t ftk_compat_compare(bool counters, size_t *changed)
{
    struct walk w;
    struct item it;
    const char *data;
    size_t n = 0;
    *changed = 0;
    if (!saved.data || !walk_begin(saved.data, saved.bytes, &w))
        return 0;
    while (walk_next(&w, &it, &data)) {
        const struct region *r = find((int)it.id);
        if (counters && (!r || !r->counter))
            continue;
        n++;
        *changed +=
            !r || r->bytes < it.bytes || (it.bytes > 0 && memcmp(r->data, data, it.bytes) != 0);
    }
    return n;
}

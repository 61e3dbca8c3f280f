/* Slots in a place that cannot be mapped (see place_ops.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The header and, behind it, the segment lie in anonymous memory; persist() puts each of them into
 * the place as an object.  A slot has a header object from the beginning, so that the slot is
 * listed; a header of zeros means that the slot holds nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "place_ops.h"

#define DATA_NAME (FTK_SLOT_NAME + 8)

static const struct ftk_slot nothing;

static void data_name(const char *name, char data[DATA_NAME])
{
    snprintf(data, DATA_NAME, "%s.data", name);
}

static int list(const struct ftk_place *p, ftk_slot_fn *fn, void *arg)
{
    return p->ops->list(p->dir, fn, arg);
}

static int map(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    char *at = mmap(
        NULL, bytes + FTK_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return ftk_fail_errno(ENOMEM, "%zu bytes of checkpoint memory", bytes);
    s->place = p;
    s->buf = at + FTK_SLOT_BYTES;
    s->cap = bytes;
    return FTKIT_OK;
}

/* Process ids are reused: a slot of an ended process may have our name. */
static int make(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    struct ftk_slot slot;
    size_t all;
    int err;
    do {
        ftk_slot_name(p, s);
        err = p->ops->get(p->dir, s->name, &slot, sizeof slot, &all);
    } while (err == 0);
    s->fd = -1;
    if (err == ENOENT)
        err = p->ops->lock(p->dir, s->name, &s->fd);
    if (err == 0)
        err = p->ops->put(p->dir, s->name, &nothing, sizeof nothing);
    return err == 0 ? map(p, s, bytes) : ftk_fail_errno(err, "%s/%s", p->dir, s->name);
}

static int open_slot(const struct ftk_place *p, struct ftk_mem_seg *s)
{
    (void)p;
    s->fd = -1; /* no lock yet */
    return FTKIT_OK;
}

static int peek(const struct ftk_place *p, const char *name, struct ftk_slot *slot)
{
    size_t all = 0;
    int err = p->ops->get(p->dir, name, slot, sizeof *slot, &all);
    if (err != 0)
        return err == ENOENT ? FTKIT_ERR_STATE : FTKIT_ERR_FORMAT;
    return all == sizeof *slot ? ftk_slot_check(slot, SIZE_MAX) : FTKIT_ERR_FORMAT;
}

static int read_slot(
    const struct ftk_place *p, const struct ftk_mem_seg *s, struct ftk_slot *slot, size_t *room)
{
    char data[DATA_NAME];
    size_t all = 0;
    data_name(s->name, data);
    int err = p->ops->get(p->dir, s->name, slot, sizeof *slot, &all);
    if (err == ENOENT)
        return ftk_fail(FTKIT_ERR_STATE, "%s/%s is gone", p->dir, s->name);
    if (err == 0 && all != sizeof *slot)
        return ftk_fail(FTKIT_ERR_FORMAT, "%s/%s: a header of %zu bytes", p->dir, s->name, all);
    if (err == 0)
        err = p->ops->get(p->dir, data, NULL, 0, room);
    if (err == ENOENT)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s/%s holds nothing", p->dir, s->name);
    return err == 0 ? FTKIT_OK : ftk_fail_errno(err, "%s/%s", p->dir, s->name);
}

static int lock(const struct ftk_place *p, struct ftk_mem_seg *s)
{
    return p->ops->lock(p->dir, s->name, &s->fd);
}

static int load(struct ftk_place *p, struct ftk_mem_seg *s, size_t room)
{
    char data[DATA_NAME];
    size_t all = 0;
    data_name(s->name, data);
    int rc = map(p, s, room);
    int err = rc == FTKIT_OK ? p->ops->get(p->dir, data, s->buf, room, &all) : 0;
    if (err == 0 && rc == FTKIT_OK && all != room)
        err = EIO; /* the size has changed since the header was read */
    return err == 0 ? rc : ftk_fail_errno(err, "%s/%s", p->dir, data);
}

static int persist(struct ftk_place *p, struct ftk_mem_seg *s, const void *at, size_t bytes)
{
    char data[DATA_NAME];
    data_name(s->name, data);
    return p->ops->put(p->dir, at == s->buf ? data : s->name, at, bytes);
}

/* Remove the header first: a segment without a header is not used. */
static int remove_slot(const struct ftk_place *p, const char *name)
{
    char data[DATA_NAME];
    data_name(name, data);
    int err = p->ops->remove(p->dir, name);
    return err == 0 ? p->ops->remove(p->dir, data) : err;
}

static void close_slot(struct ftk_place *p, struct ftk_mem_seg *s, bool keep)
{
    if (s->buf)
        (void)munmap(s->buf - FTK_SLOT_BYTES, s->cap + FTK_SLOT_BYTES);
    if (s->fd < 0)
        return; /* this process has not locked the slot */
    if (!keep && remove_slot(p, s->name) != 0)
        ftk_report(FTKIT_WARNING, "cannot remove %s/%s", p->dir, s->name);
    p->ops->unlock(p->dir, s->name, s->fd);
}

static void sweep(struct ftk_place *p, const char *name)
{
    struct ftk_slot slot;
    size_t all;
    int handle;
    if (p->ops->lock(p->dir, name, &handle) != 0)
        return;
    bool readable = p->ops->get(p->dir, name, &slot, sizeof slot, &all) == 0 && all == sizeof slot;
    if (!(readable && ftk_slot_is_foreign(p, &slot, SIZE_MAX)) && remove_slot(p, name) == 0)
        ftk_report(FTKIT_DEBUG, "%s/%s: left by an ended process, removed", p->dir, name);
    p->ops->unlock(p->dir, name, handle);
}

const struct ftk_slot_access ftk_slot_object = { list, make, open_slot, read_slot, peek, lock, load,
    persist, close_slot, sweep };

/* The operations of a place, for the files of the places and those that use them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A place that can be mapped has map(): its slots are files of p->dir, as store/place.h says.  Any
 * other place keeps objects, whole byte strings with a name: the header of a slot under the name of
 * the slot, its segment under that name and ".data".  Functions that return int return 0 or an
 * errno. */
#ifndef FTK_PLACE_OPS_H
#define FTK_PLACE_OPS_H

#include "memory.h"

typedef void ftk_slot_fn(void *arg, const char *name);

/* What the file of a place defines: const struct ftk_place_ops ftk_place_<word>. */
struct ftk_place_ops {
    const char *lacks; /* a library that this build is without, NULL: none */
    /* places that can be mapped: a file of at least bytes bytes; *direct is for persist() */
    char *(*map)(int fd, const char *path, size_t bytes, bool *direct);
    void (*unmap)(char *at, size_t bytes);
    int (*persist)(const void *at, size_t bytes, bool direct); /* NULL: stores are enough */
    /* places with objects; put() replaces an object as a whole, and returns when it holds */
    int (*put)(const char *dir, const char *name, const void *from, size_t bytes);
    /* The first bytes bytes; *all: the size of the object.  ENOENT: there is none. */
    int (*get)(const char *dir, const char *name, void *to, size_t bytes, size_t *all);
    int (*remove)(const char *dir, const char *name); /* also of an object that is not there */
    int (*list)(const char *dir, ftk_slot_fn *fn, void *arg);
    /* A lock of that name, which ends with its process.  EWOULDBLOCK: a process has it, perhaps
     * this one. */
    int (*lock)(const char *dir, const char *name, int *handle);
    void (*unlock)(const char *dir, const char *name, int handle);
};

/* How place.c comes to the slots of a place: slot_file.c, slot_object.c. */
struct ftk_slot_access {
    int (*list)(const struct ftk_place *p, ftk_slot_fn *fn, void *arg);
    /* A new slot with this name, locked and in memory.  FTKIT_ERR_NOSPACE, FTKIT_ERR_IO */
    int (*make)(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes);
    /* The slot s->name: FTKIT_ERR_STATE when it is gone or nothing of ours. */
    int (*open)(const struct ftk_place *p, struct ftk_mem_seg *s);
    /* The header of an open slot, and the room behind it; also without the lock. */
    int (*read)(const struct ftk_place *p, const struct ftk_mem_seg *s, struct ftk_slot *slot,
        size_t *room);
    /* The same of any slot.  FTKIT_ERR_STATE: it is gone. */
    int (*peek)(const struct ftk_place *p, const char *name, struct ftk_slot *slot);
    int (*lock)(const struct ftk_place *p, struct ftk_mem_seg *s); /* 0, or an errno */
    /* Bring the locked slot into memory. */
    int (*load)(struct ftk_place *p, struct ftk_mem_seg *s, size_t room);
    /* What has been written, the header or the segment, holds: 0, or an errno. */
    int (*persist)(struct ftk_place *p, struct ftk_mem_seg *s, const void *at, size_t bytes);
    void (*close)(struct ftk_place *p, struct ftk_mem_seg *s, bool keep);
    /* Remove a slot that nobody alive has, and that is of this program. */
    void (*sweep)(struct ftk_place *p, const char *name);
};
extern const struct ftk_slot_access ftk_slot_file, ftk_slot_object;

const struct ftk_place_ops *ftk_place_ops_of(int place);

/* The checksum of a header, with sum 0. */
uint64_t ftk_slot_sum(const struct ftk_slot *slot);
/* The next name for a slot of this process. */
void ftk_slot_name(struct ftk_place *p, struct ftk_mem_seg *s);
/* Whether an existing slot is not to be removed: of an ftkit of another version, of a machine with
 * another byte order, or of another program.  Without a header that can be read it is not. */
bool ftk_slot_is_foreign(const struct ftk_place *p, struct ftk_slot *slot, size_t room);

#endif

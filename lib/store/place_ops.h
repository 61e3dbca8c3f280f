/* The operations of a place: for the files that define places, and for their callers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A place that can be mapped has map(): its slots are files in p->dir (store/place.h).  Any other
 * place keeps objects, which are whole byte strings with a name: the header of a slot has the name
 * of the slot, its segment has that name followed by ".data". */
#ifndef FTK_PLACE_OPS_H
#define FTK_PLACE_OPS_H

#include "memory.h"

typedef void ftk_slot_fn(void *arg, const char *name);

/* What the file of a place defines: const struct ftk_place_ops ftk_place_<word>.  Functions that
 * return int return 0 or an errno. */
struct ftk_place_ops {
    const char *lacks; /* a library that this build is without, NULL: none */
    /* Load the library of the place.  NULL, or a text why it cannot be used; NULL: there is none */
    const char *(*load)(void);
    /* places that can be mapped: map a file of at least bytes bytes; *direct is for persist() */
    char *(*map)(int fd, const char *path, size_t bytes, bool *direct);
    void (*unmap)(char *at, size_t bytes);
    int (*persist)(const void *at, size_t bytes, bool direct); /* NULL: stores are enough */
    /* places with objects; put() replaces a whole object, and returns when the object is
     * persistent */
    int (*put)(const char *dir, const char *name, const void *from, size_t bytes);
    /* Read the first bytes bytes; *all: the size of the object.  ENOENT: there is none. */
    int (*get)(const char *dir, const char *name, void *to, size_t bytes, size_t *all);
    int (*remove)(const char *dir, const char *name); /* also of an object that is not there */
    int (*list)(const char *dir, ftk_slot_fn *fn, void *arg);
    /* Take the lock of that name, which ends with its process.  EWOULDBLOCK: a process has it,
     * perhaps this one. */
    int (*lock)(const char *dir, const char *name, int *handle);
    void (*unlock)(const char *dir, const char *name, int handle);
};

/* How place.c reaches the slots of a place: slot_file.c, slot_object.c.  list(), lock() and
 * persist() return 0 or an errno, the others an error code of ftkit. */
struct ftk_slot_access {
    int (*list)(const struct ftk_place *p, ftk_slot_fn *fn, void *arg);
    /* Make a slot, choose its name, lock it and bring it into memory.  FTKIT_ERR_NOSPACE,
     * FTKIT_ERR_IO */
    int (*make)(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes);
    /* Open the slot s->name.  FTKIT_ERR_STATE: it is gone, or not ours. */
    int (*open)(const struct ftk_place *p, struct ftk_mem_seg *s);
    /* Read the header of an open slot, locked or not; *room: the bytes behind the header. */
    int (*read)(const struct ftk_place *p, const struct ftk_mem_seg *s, struct ftk_slot *slot,
        size_t *room);
    /* Read and check the header of a slot that is not open.  FTKIT_ERR_STATE: it is gone. */
    int (*peek)(const struct ftk_place *p, const char *name, struct ftk_slot *slot);
    int (*lock)(const struct ftk_place *p, struct ftk_mem_seg *s); /* do not wait */
    /* Bring the locked slot into memory. */
    int (*load)(struct ftk_place *p, struct ftk_mem_seg *s, size_t room);
    /* Wait until the header or the segment, which is written, has reached the place. */
    int (*persist)(struct ftk_place *p, struct ftk_mem_seg *s, const void *at, size_t bytes);
    void (*close)(struct ftk_place *p, struct ftk_mem_seg *s, bool keep); /* unlocks it, too */
    /* Remove a slot of this job that no living process has locked. */
    void (*sweep)(struct ftk_place *p, const char *name);
};
extern const struct ftk_slot_access ftk_slot_file, ftk_slot_object;

/* Return the checksum of a header, computed with sum 0. */
uint64_t ftk_slot_sum(const struct ftk_slot *slot);
/* Choose the next name for a slot of this process. */
void ftk_slot_name(struct ftk_place *p, struct ftk_mem_seg *s);
/* Whether a slot must not be removed: it is of another version of ftkit, of a machine with another
 * byte order, or of another job.  A slot whose header cannot be read may be removed. */
bool ftk_slot_is_foreign(const struct ftk_place *p, struct ftk_slot *slot, size_t room);

#endif

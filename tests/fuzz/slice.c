/* The reader of slices of files: any head and entries, with checksums that are right; no file is
 * made outside of the directory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include "core/hash.h"
#include "store/slice.h"
#include "store/tree.h"

#define ROOM (64u << 10)

/* Give the heads the sizes of the input, and the checksums that belong to them. */
static void seal(char *buf, size_t bytes)
{
    struct ftk_slice_head h;
    struct ftk_archive_head a;
    memcpy(&h, buf, sizeof h);
    memcpy(&a, buf + sizeof h, sizeof a);
    if (a.head_bytes < sizeof a || a.head_bytes > bytes - sizeof h)
        return;
    a.bytes = h.archive_bytes;
    a.sum = 0;
    a.sum = ftk_archive_sum(&a, buf + sizeof h);
    memcpy(buf + sizeof h, &a, sizeof a);
    h.bytes = bytes;
    h.entries_sum = a.sum;
    h.sum = 0;
    h.sum = ftk_xxh3(&h, sizeof h);
    memcpy(buf, &h, sizeof h);
}

/* Nothing but the directory is in the working directory. */
static int is_known(void *arg, int dir, const char *name, const struct stat *st)
{
    (void)arg, (void)dir, (void)st;
    MUST(strcmp(name, "to") == 0);
    return 0;
}

/* Sparse files of huge lengths are right, so no file is read. */
static void try_one(const char *buf, size_t bytes, const char *to)
{
    struct ftk_slice s;
    if (ftk_slice_check(buf, bytes, &s) != FTKIT_OK)
        return;
    MUST(s.from <= s.to && s.to <= s.head.archive_bytes);
    MUST(s.contents >= buf && s.contents + (s.to - s.from) == buf + bytes);
    if (ftk_slice_spread(&s, to) == FTKIT_OK)
        (void)ftk_slice_finish(&s, to);
    free(s.list.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char buf[ROOM];
    char to[96];
    if (bytes > ROOM)
        return 0;
    snprintf(to, sizeof to, "%s/to", fuzz_work());
    MUST(mkdir(to, 0700) == 0 || access(to, W_OK) == 0);
    memcpy(buf, data, bytes);
    try_one(buf, bytes, to);
    MUST(ftk_tree_empty(AT_FDCWD, to, NULL) == 0);
    if (bytes >= sizeof(struct ftk_slice_head) + sizeof(struct ftk_archive_head))
        seal(buf, bytes);
    try_one(buf, bytes, to);
    const int at = open(fuzz_dir, O_RDONLY | O_DIRECTORY);
    MUST(at >= 0);
    MUST(ftk_tree_each(at, ".", is_known, NULL) == 0);
    MUST(ftk_tree_empty(at, "to", NULL) == 0);
    close(at);
    return 0;
}

/* The reader of archives of files: any head and entries, with a checksum that is right; no file is
 * made outside of the directory, and plain files of such an archive come back as they are.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "store/plain_files.h"
#include "store/tree.h"

#define ROOM (64u << 10)

/* Give the head the sizes of the input, and the checksum that belongs to it. */
static void seal(char *buf, size_t bytes)
{
    struct ftk_archive_head h;
    memcpy(&h, buf, sizeof h);
    if (h.head_bytes < sizeof h || h.head_bytes > bytes)
        return;
    h.bytes = bytes;
    h.sum = 0;
    h.sum = ftk_archive_sum(&h, buf);
    memcpy(buf, &h, sizeof h);
}

static void check_list(const struct ftk_archive_list *l, const char *buf, size_t bytes)
{
    for (uint32_t i = 0; i < l->head.nentries; i++) {
        const struct ftk_archive_item *e = &l->v[i];
        MUST(e->path > buf && e->path + strlen(e->path) < buf + l->head.head_bytes);
        MUST(e->path[0] != '/' && strcmp(e->path, "..") != 0 && !strstr(e->path, "/../"));
        MUST(e->e.bytes <= bytes && e->e.offset <= bytes - e->e.bytes);
    }
}

/* Nothing but the two directories is in the working directory. */
static int is_known(void *arg, int dir, const char *name, const struct stat *st)
{
    (void)arg, (void)dir, (void)st;
    MUST(strcmp(name, "to") == 0 || strcmp(name, FTK_PLAIN_DIR) == 0);
    return 0;
}

/* Write plain files, and read them into other memory. */
static void through_files(int at, const struct ftk_archive_list *l, const char *buf)
{
    static char again[ROOM];
    const struct ftk_plain p = { at, 1, 0, "r" };
    const struct ftk_plain_pace pace = { NULL, NULL, -1 };
    const struct ftk_plain_reader reader = { NULL, NULL, NULL, NULL };
    uint64_t *sums = calloc((size_t)l->head.nentries + 1, sizeof *sums);
    MUST(sums);
    if (ftk_plain_write(&p, buf, l, &pace, sums) == FTKIT_OK) {
        memcpy(again, buf, (size_t)l->head.head_bytes);
        MUST(ftk_plain_read(&p, again, l, sums, &reader) == FTKIT_OK);
        for (uint32_t i = 0; i < l->head.nentries; i++)
            MUST(memcmp(again + l->v[i].e.offset, buf + l->v[i].e.offset, l->v[i].e.bytes) == 0);
    }
    MUST(ftk_plain_remove(at, NULL) == 0);
    free(sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char buf[ROOM];
    struct ftk_archive_list l;
    char to[96];
    bool absent;
    if (bytes > ROOM)
        return 0;
    snprintf(to, sizeof to, "%s/to", fuzz_work());
    MUST(mkdir(to, 0700) == 0 || access(to, W_OK) == 0);
    (void)ftk_archive_unpack(data, bytes, to, &absent);
    MUST(ftk_tree_empty(AT_FDCWD, to, NULL) == 0);
    memcpy(buf, data, bytes);
    if (bytes >= sizeof(struct ftk_archive_head))
        seal(buf, bytes);
    const int at = open(fuzz_dir, O_RDONLY | O_DIRECTORY);
    MUST(at >= 0);
    if (ftk_archive_list(buf, bytes, bytes, &l) == FTKIT_OK) {
        check_list(&l, buf, bytes);
        through_files(at, &l, buf);
        free(l.v);
    }
    (void)ftk_archive_unpack(buf, bytes, to, &absent);
    MUST(ftk_tree_each(at, ".", is_known, NULL) == 0);
    MUST(ftk_tree_empty(at, "to", NULL) == 0);
    close(at);
    return 0;
}

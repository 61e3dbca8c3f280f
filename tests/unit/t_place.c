/* Slots when the power goes: whatever has reached the place by then, what is found there is
 * a whole segment or nothing.
 *
 * The place "file" makes its order with msync(), which is replaced here: what a call covers
 * has reached the disk, of everything else written since any cache line may have, or not.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "store/memory.h"

#define LINE 64
#define ROOM (1u << 20)
#define DATA 20000

static char dir[] = "/tmp/ftkit-t-place.XXXXXX", after[] = "/tmp/ftkit-t-after.XXXXXX";
static unsigned seed = 99;

static unsigned rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* ---- the disk below one slot --------------------------------------------------------- */

static char *mapped; /* of the slot under test */
static char disk[ROOM];
static size_t room;
static void (*crash)(void); /* called before each msync() */

int msync(void *at, size_t bytes, int flags)
{
    assert_int_equal(flags, MS_SYNC);
    if (!mapped || (char *)at < mapped || (char *)at >= mapped + room)
        return 0;
    if (crash)
        crash();
    size_t from = (size_t)((char *)at - mapped);
    bytes = bytes > room - from ? room - from : bytes;
    memcpy(disk + from, mapped + from, bytes);
    return 0;
}

/* ---- segments ------------------------------------------------------------------------ */

static unsigned char content(uint64_t set, size_t i)
{
    return (unsigned char)(set * 31 + i * 7 + i / 251);
}

static void write_segment(struct ftk_mem_seg *s, uint64_t set)
{
    size_t head = ftk_seg_head_bytes(1, DATA, FTK_SEG_BLOCK);
    struct ftk_seg_header *h = (void *)s->buf;
    memset(s->buf, 0, head);
    *h = (struct ftk_seg_header){ .version = FTK_SEG_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = head,
        .data_bytes = DATA,
        .set = set,
        .run = 5,
        .epoch_id = 6,
        .rank = 0,
        .nranks = 1,
        .nregions = 1,
        .block_bytes = FTK_SEG_BLOCK,
        .nblocks = 1,
        .context = "t" };
    memcpy(h->magic, FTK_SEG_MAGIC, sizeof h->magic);
    struct ftk_seg_region *r = ftk_seg_regions(s->buf);
    *r = (struct ftk_seg_region){ .name = "x",
        .kind = FTK_KIND_FLAT,
        .basic = FTK_T_U8,
        .elem_bytes = 1,
        .count = DATA,
        .bytes = DATA };
    for (size_t i = 0; i < DATA; i++)
        ftk_seg_data(s->buf)[i] = (char)content(set, i);
    ftk_seg_seal_data(s->buf);
    ftk_seg_seal_head(s->buf);
}

static size_t segment_bytes(void)
{
    return ftk_seg_head_bytes(1, DATA, FTK_SEG_BLOCK) + DATA;
}

/* What a later process finds of this image: the number of the set, 0 nothing. */
static uint64_t found(const char *image)
{
    char path[160];
    struct ftk_mem m = { 0 };
    uint64_t set = 0;
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, after, "t", 1, 1), FTKIT_OK);
    snprintf(path, sizeof path, "%s/%s1.1", after, m.place.prefix);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, image, room), room);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    assert_true(m.nsegs <= 1);
    if (m.nsegs == 1) {
        struct ftk_mem_seg *s = m.segs[0];
        set = s->set;
        for (size_t i = 0; i < DATA; i++)
            assert_int_equal((unsigned char)ftk_seg_data(s->buf)[i], content(set, i));
    }
    char *was = mapped; /* closing is no store to the slot under test */
    mapped = NULL;
    ftk_mem_close(&m, false);
    mapped = was;
    return set;
}

static uint64_t may_be[2]; /* sets that a crash at this moment may leave, 0: nothing */
static long crashes, seen[8];

static void check(const char *image)
{
    uint64_t set = found(image);
    crashes++;
    seen[set]++;
    assert_true(set == may_be[0] || set == may_be[1]);
}

/* Nothing, everything, each single line, and many mixtures of what is under way. */
static void crash_here(void)
{
    static char image[ROOM];
    size_t dirty[ROOM / LINE], n = 0;
    for (size_t i = 0; i < room; i += LINE)
        if (memcmp(disk + i, mapped + i, LINE) != 0)
            dirty[n++] = i;
    check(disk);
    memcpy(image, mapped, room);
    check(image);
    for (int round = 0; round < 60 && n > 0; round++) {
        memcpy(image, disk, room);
        size_t prefix = rnd() % (n + 1);
        for (size_t k = 0; k < n; k++) {
            bool there = round < 20   ? k < prefix      /* in the order they were written */
                         : round < 40 ? k >= prefix     /* from the end */
                                      : rnd() % 2 == 0; /* as it happens */
            if (there)
                memcpy(image + dirty[k], mapped + dirty[k], LINE);
        }
        check(image);
    }
}

static void power_goes_at_any_time(void **state)
{
    (void)state;
    struct ftk_mem m = { 0 };
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_mem_take(&m, 1, 0, 1, segment_bytes(), &s), FTKIT_OK);
    mapped = s->buf - FTK_SLOT_BYTES;
    room = s->cap + FTK_SLOT_BYTES;
    assert_true(room <= ROOM);
    memcpy(disk, mapped, room);
    crash = crash_here;
    for (uint64_t set = 1; set <= 3; set++) {
        if (set > 1) {
            may_be[0] = set - 1; /* being wiped */
            may_be[1] = 0;
            ftk_mem_release(s);
            struct ftk_mem_seg *again;
            assert_int_equal(ftk_mem_take(&m, set, 0, 1, segment_bytes(), &again), FTKIT_OK);
            assert_ptr_equal(again, s); /* the same slot is used again */
        }
        may_be[0] = 0;
        may_be[1] = 0;
        write_segment(s, set);
        crash_here();
        may_be[1] = set; /* from when its header is on its way */
        assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
        may_be[0] = set;
        crash_here();
    }
    assert_true(crashes > 500);
    assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0 && seen[3] > 0);
    mapped = NULL;
    ftk_mem_close(&m, false);
}

/* ---- what else may lie there --------------------------------------------------------- */

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    const struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void slot_in_use_is_left_alone(void **state)
{
    (void)state;
    const bool first[] = { true, false }, second[] = { false, true };
    struct ftk_mem m = { 0 }, other = { 0 };
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_place_open(&other.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_mem_take(&m, 4, 0, 1, segment_bytes(), &s), FTKIT_OK);
    write_segment(s, 4);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    assert_int_equal(ftk_place_adopt(&other.place, &other, NULL, 0), FTKIT_OK);
    assert_int_equal(other.nsegs, 0);
    assert_int_equal(other.place.nbusy, 1); /* whose it is shows without its lock */
    assert_int_equal(other.place.busy[0].set, 4);
    assert_int_equal(ftk_place_adopt(&other.place, &other, first, 2), FTKIT_OK);
    assert_int_equal(other.place.nbusy, 0);
    ftk_mem_close(&m, true); /* as if it had died */
    assert_int_equal(ftk_place_adopt(&other.place, &other, second, 2), FTKIT_OK);
    assert_int_equal(other.nsegs, 0); /* another rank's */
    assert_int_equal(ftk_place_adopt(&other.place, &other, first, 2), FTKIT_OK);
    assert_int_equal(other.nsegs, 1);
    ftk_mem_close(&other, false);
    assert_int_equal(entries(dir), 0);
}

/* The slots of a segment and of its copy: each process that wants one gets one. */
static void copies_are_shared_out(void **state)
{
    (void)state;
    const bool first[] = { true };
    struct ftk_mem m = { 0 }, owner = { 0 }, holder = { 0 };
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_place_open(&owner.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_place_open(&holder.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    for (int i = 0; i < 3; i++) {
        struct ftk_mem_seg *s;
        assert_int_equal(ftk_mem_take(&m, 4, 0, 1, segment_bytes(), &s), FTKIT_OK);
        write_segment(s, 4);
        assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    }
    ftk_mem_close(&m, true); /* as if it had died */
    assert_int_equal(ftk_place_adopt(&owner.place, &owner, first, 0), FTKIT_OK);
    assert_int_equal(owner.nsegs, 0);
    assert_int_equal(ftk_place_adopt(&owner.place, &owner, first, 1), FTKIT_OK);
    assert_int_equal(owner.nsegs, 1);
    assert_int_equal(ftk_place_adopt(&holder.place, &holder, first, 1), FTKIT_OK);
    assert_int_equal(holder.nsegs, 1);
    assert_int_equal(entries(dir), 3);
    assert_int_equal(ftk_place_adopt(&owner.place, &owner, NULL, 0), FTKIT_OK);
    assert_int_equal(owner.nsegs, 1);
    assert_int_equal(entries(dir), 2); /* nobody needs the third one */
    ftk_mem_close(&owner, false);
    ftk_mem_close(&holder, false);
    assert_int_equal(entries(dir), 0);
}

/* A slot of a set, a rank and a try; alive: locked. */
static void leave_one(struct ftk_mem *m, uint64_t set, int rank, uint64_t epoch_id, bool alive)
{
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_place_open(&m->place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_mem_take(m, set, rank, 9, segment_bytes(), &s), FTKIT_OK);
    write_segment(s, set);
    struct ftk_seg_header *h = (void *)s->buf;
    h->epoch_id = epoch_id;
    ftk_seg_seal_head(s->buf);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    if (!alive)
        ftk_mem_close(m, true);
}

/* Slots of ended processes go if they are of these ranks, of this set and of this try. */
static void what_is_dropped(void **state)
{
    (void)state;
    struct ftk_mem ended = { 0 }, alive = { 0 }, m = { 0 };
    const struct ftk_slot like = { .set = 4, .run = 5, .epoch_id = 6 };
    const int ranks[] = { 2, 7 };
    leave_one(&ended, 4, 2, 6, false);
    leave_one(&ended, 4, 7, 6, false);
    leave_one(&ended, 4, 3, 6, false);
    leave_one(&ended, 4, 2, 8, false);
    leave_one(&ended, 5, 2, 6, false);
    leave_one(&alive, 4, 2, 6, true);
    assert_int_equal(entries(dir), 6);
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    ftk_place_drop(&m.place, &like, ranks, 2);
    assert_int_equal(entries(dir), 4);
    ftk_mem_close(&alive, true);
    ftk_place_drop(&m.place, &like, ranks, 2);
    assert_int_equal(entries(dir), 3);
    ftk_place_sweep(&m.place, 1);
    assert_int_equal(entries(dir), 0);
    ftk_mem_close(&m, false);
}

/* ---- whose it is --------------------------------------------------------------------- */

static void leave_slot(const struct ftk_identity *id, uint64_t set, int version)
{
    struct ftk_mem m = { 0 };
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    if (id)
        ftk_place_identify(&m.place, id);
    assert_int_equal(ftk_mem_take(&m, set, 0, 1, segment_bytes(), &s), FTKIT_OK);
    write_segment(s, set);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    if (version == 1) { /* the header as the first version has it, and something behind it */
        struct ftk_slot *slot = (void *)(s->buf - FTK_SLOT_BYTES);
        memset((char *)slot + FTK_SLOT_BYTES_1, 'x', sizeof *slot - FTK_SLOT_BYTES_1);
        slot->version = 1;
        slot->sum = 0;
        slot->sum = XXH3_64bits(slot, 144);
    }
    ftk_mem_close(&m, true); /* as if it had died */
}

/* The set that a job of this identity finds, 0: none; what it keeps stays. */
static uint64_t finds(const struct ftk_identity *id, int *others, char program[64])
{
    const bool own[] = { true };
    struct ftk_mem m = { 0 };
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    ftk_place_identify(&m.place, id);
    assert_int_equal(ftk_place_adopt(&m.place, &m, own, 1), FTKIT_OK);
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    uint64_t set = m.nsegs > 0 ? m.segs[0]->set : 0;
    assert_true(m.nsegs <= 1);
    *others = m.place.others;
    memcpy(program, m.place.other.program, 64);
    ftk_mem_close(&m, true);
    return set;
}

static void slots_of_other_jobs(void **state)
{
    (void)state;
    struct ftk_identity here, there, other;
    char program[64];
    int others = 0;
    ftk_identity_find(&here, "heat2d", dir);
    ftk_identity_find(&there, "heat2d", after);
    ftk_identity_find(&other, "cg", dir);
    leave_slot(&here, 5, 2);
    assert_int_equal(finds(&here, &others, program), 5);
    assert_int_equal(others, 0);
    assert_int_equal(finds(&there, &others, program), 0); /* another directory */
    assert_int_equal(others, 1);
    assert_string_equal(program, "heat2d");
    assert_int_equal(finds(&other, &others, program), 0); /* another program */
    assert_int_equal(others, 1);
    struct ftk_mem m = { 0 }; /* nor does a commit of another sweep it */
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    ftk_place_identify(&m.place, &other);
    ftk_place_sweep(&m.place, 7);
    ftk_place_identify(&m.place, &there);
    ftk_place_sweep(&m.place, 8);
    assert_int_equal(finds(&here, &others, program), 5);
    ftk_place_identify(&m.place, &here);
    ftk_place_sweep(&m.place, 9);
    assert_int_equal(finds(&here, &others, program), 0);
    assert_int_equal(entries(dir), 0);
}

/* A slot of version 1 tells no job: it is found, and swept by nobody. */
static void older_slots(void **state)
{
    (void)state;
    struct ftk_identity here;
    char program[64];
    int others = 0;
    struct ftk_mem m = { 0 };
    ftk_identity_find(&here, "heat2d", dir);
    leave_slot(NULL, 4, 1);
    assert_int_equal(finds(&here, &others, program), 4);
    assert_int_equal(others, 0);
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    ftk_place_identify(&m.place, &here);
    ftk_place_sweep(&m.place, 7);
    assert_int_equal(finds(&here, &others, program), 4);
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    assert_int_equal(m.nsegs, 1);
    ftk_mem_close(&m, false);
    assert_int_equal(entries(dir), 0);
}

static void foreign_files(void **state)
{
    (void)state;
    char path[256], target[128];
    struct ftk_mem m = { 0 };
    assert_int_equal(ftk_place_open(&m.place, FTK_PLACE_FILE, after, "t", 1, 1), FTKIT_OK);
    snprintf(target, sizeof target, "%s/target", dir);
    int fd = open(target, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    snprintf(path, sizeof path, "%s/%s7.1", after, m.place.prefix);
    assert_int_equal(symlink(target, path), 0); /* is not followed */
    snprintf(path, sizeof path, "%s/%s7.2", after, m.place.prefix);
    assert_int_equal(mkfifo(path, 0600), 0); /* does not block */
    snprintf(path, sizeof path, "%s/%s7.3", after, m.place.prefix);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s7.4", after, m.place.prefix);
    close(open(path, O_WRONLY | O_CREAT, 0600)); /* empty: removed */
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    assert_int_equal(m.nsegs, 0);
    assert_int_equal(entries(after), 3);
    assert_int_equal(access(target, F_OK), 0);
    unlink(target);
    ftk_mem_close(&m, false);
}

static void names_that_begin_alike(void **state)
{
    (void)state;
    struct ftk_mem a = { 0 }, b = { 0 }, c = { 0 };
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_place_open(&a.place, FTK_PLACE_FILE, dir, "t-1.5", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_place_open(&b.place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
    assert_int_equal(ftk_place_open(&c.place, FTK_PLACE_FILE, dir, "t", 1, 0), FTKIT_OK);
    assert_int_equal(ftk_mem_take(&a, 4, 0, 1, segment_bytes(), &s), FTKIT_OK);
    write_segment(s, 4);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    assert_true(ftk_place_is_slot(s->name));
    ftk_mem_close(&a, true);
    assert_int_equal(ftk_place_adopt(&b.place, &b, NULL, 0), FTKIT_OK);
    ftk_place_sweep(&b.place, 1);
    assert_int_equal(b.nsegs, 0);
    assert_int_equal(entries(dir), 1); /* nor removed */
    assert_int_equal(ftk_mem_take(&c, 4, 0, 1, segment_bytes(), &s), FTKIT_OK);
    write_segment(s, 4);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    ftk_mem_close(&c, true);
    assert_int_equal(ftk_place_adopt(&c.place, &c, NULL, 0), FTKIT_OK);
    assert_int_equal(c.nsegs, 0); /* key 0: found by nobody, but removed */
    ftk_place_sweep(&c.place, 1);
    assert_int_equal(entries(dir), 1);
    assert_int_equal(ftk_place_open(&a.place, FTK_PLACE_FILE, dir, "t-1.5", 1, 1), FTKIT_OK);
    ftk_place_sweep(&a.place, 1);
    assert_int_equal(entries(dir), 0);
    assert_false(ftk_place_is_slot("ftkit-slot-1-t-1.x.1"));
    assert_false(ftk_place_is_slot("1.1"));
    assert_false(ftk_place_is_slot("ftkit-slot-"));
    ftk_mem_close(&a, false);
    ftk_mem_close(&b, false);
    ftk_mem_close(&c, false);
}

/* ---- errors -------------------------------------------------------------------------- */

/* The faults of main() are for a rank that this process is while it says so. */
static void open_as(int rank, struct ftk_mem *m)
{
    memset(m, 0, sizeof *m);
    ftk_fault_rank(rank, 0);
    assert_int_equal(ftk_place_open(&m->place, FTK_PLACE_FILE, dir, "t", 1, 1), FTKIT_OK);
}

static struct ftk_mem_seg *take(struct ftk_mem *m, uint64_t set)
{
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_mem_take(m, set, 0, 1, segment_bytes(), &s), FTKIT_OK);
    write_segment(s, set);
    return s;
}

static bool is_empty(const struct ftk_mem_seg *s)
{
    static const struct ftk_slot nothing;
    return memcmp(s->buf - FTK_SLOT_BYTES, &nothing, sizeof nothing) == 0;
}

/* A header that could not be made to hold must not hold by chance. */
static void failed_seal(void **state)
{
    (void)state;
    struct ftk_mem m;
    open_as(1, &m);
    struct ftk_mem_seg *s = take(&m, 3);
    assert_int_equal(ftk_mem_seal(s), FTKIT_ERR_IO);
    assert_true(is_empty(s));
    s->buf[-(int)FTK_SLOT_BYTES] = 'F'; /* as if its page had been written back before */
    assert_false(s->sealed);
    ftk_mem_release(s);
    assert_true(is_empty(s));
    ftk_mem_close(&m, false);
    assert_int_equal(entries(dir), 0);
}

static void not_now(void **state)
{
    (void)state;
    struct ftk_mem m, later;
    open_as(2, &m);
    assert_int_equal(ftk_mem_seal(take(&m, 3)), FTKIT_OK);
    ftk_mem_close(&m, true);
    open_as(3, &later); /* cannot map it */
    assert_int_equal(ftk_place_adopt(&later.place, &later, NULL, 0), FTKIT_ERR_NOMEM);
    assert_int_equal(later.nsegs, 0);
    assert_int_equal(ftk_place_adopt(&later.place, &later, NULL, 0), FTKIT_OK);
    assert_int_equal(later.nsegs, 1);
    ftk_mem_close(&later, false);
    assert_int_equal(entries(dir), 0);
}

static void put(const char *name, const char *text, int age_s)
{
    char path[256];
    const struct timespec t = { time(NULL) - age_s, 0 };
    const struct timespec both[2] = { t, t };
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(futimens(fd, both), 0);
    close(fd);
}

static const char *name_of(const struct ftk_mem *m, const char *kind, int number)
{
    static char name[FTK_SLOT_NAME];
    snprintf(name, sizeof name, "%s%s%d.%d", kind, m->place.prefix + strlen(FTK_SLOT_PREFIX),
        (int)getpid(), number);
    return name;
}

/* A process of an earlier job had our number. */
static void names_come_again(void **state)
{
    (void)state;
    struct ftk_mem m, later;
    char path[256];
    struct stat st;
    open_as(2, &m);
    assert_int_equal(ftk_mem_seal(take(&m, 3)), FTKIT_OK);
    ftk_mem_close(&m, true);
    open_as(2, &later);
    put(name_of(&later, FTK_SLOT_NEW, 3), "new", 0);
    struct ftk_mem_seg *first = take(&later, 4);
    struct ftk_mem_seg *second = take(&later, 4);
    assert_string_equal(first->name, name_of(&later, FTK_SLOT_PREFIX, 2));
    assert_string_equal(second->name, name_of(&later, FTK_SLOT_PREFIX, 4));
    assert_int_equal(entries(dir), 4);
    snprintf(path, sizeof path, "%s/%s", dir, name_of(&later, FTK_SLOT_NEW, 3));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ftk_place_adopt(&later.place, &later, NULL, 0), FTKIT_OK);
    assert_int_equal(later.nsegs, 3);
    assert_int_equal(later.segs[2]->set, 3); /* it holds */
    ftk_mem_close(&later, false);
    assert_int_equal(entries(dir), 0);
}

static void what_is_swept(void **state)
{
    (void)state;
    struct ftk_mem m;
    open_as(2, &m);
    struct ftk_mem_seg *s = take(&m, 3);
    assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    struct ftk_slot *slot = (void *)(s->buf - FTK_SLOT_BYTES);
    slot->version = 99;
    ftk_mem_close(&m, true);
    put(name_of(&m, FTK_SLOT_NEW, 7), "of one who was killed", 120);
    put(name_of(&m, FTK_SLOT_NEW, 8), "being made", 5);
    open_as(2, &m);
    ftk_place_sweep(&m.place, 1);
    assert_int_equal(entries(dir), 2); /* of a newer ftkit, and being made */
    put(name_of(&m, FTK_SLOT_NEW, 8), "", 120);
    ftk_place_sweep(&m.place, 2);
    assert_int_equal(entries(dir), 1);
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    assert_int_equal(entries(dir), 1);
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name_of(&m, FTK_SLOT_PREFIX, 1));
    assert_int_equal(unlink(path), 0);
    ftk_mem_close(&m, false);
}

/* What was of no use stays, but not at the price of having no set at all. */
static void no_use_and_no_room(void **state)
{
    (void)state;
    struct ftk_mem m;
    open_as(2, &m);
    assert_int_equal(ftk_mem_seal(take(&m, 3)), FTKIT_OK);
    ftk_mem_close(&m, true);
    open_as(4, &m);
    assert_int_equal(ftk_place_adopt(&m.place, &m, NULL, 0), FTKIT_OK);
    assert_int_equal(m.nsegs, 1);
    ftk_mem_leave(&m, false);
    m.place.kept = true;
    assert_int_equal(m.nsegs, 0);
    assert_int_equal(entries(dir), 1);
    (void)take(&m, 5);
    assert_int_equal(entries(dir), 2);
    (void)take(&m, 6); /* no space, the first time */
    assert_int_equal(entries(dir), 2);
    struct ftk_mem_seg *s;
    assert_int_equal(ftk_mem_take(&m, 7, 0, 1, segment_bytes(), &s), FTKIT_ERR_NOSPACE);
    ftk_mem_close(&m, false);
    assert_int_equal(entries(dir), 0);
}

static void directories(void **state)
{
    (void)state;
    struct ftk_place p;
    assert_int_equal(ftk_place_open(&p, FTK_PLACE_FILE, "/nowhere", "t", 1, 1), FTKIT_ERR_IO);
    assert_int_equal(ftk_place_open(&p, FTK_PLACE_FILE, "/dev/null", "t", 1, 1), FTKIT_ERR_IO);
    assert_int_equal(ftk_place_open(&p, FTK_PLACE_SHARED, NULL, "t", 1, 1), FTKIT_OK);
    assert_string_equal(p.dir, "/dev/shm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_goes_at_any_time),
        cmocka_unit_test(slot_in_use_is_left_alone),
        cmocka_unit_test(copies_are_shared_out),
        cmocka_unit_test(foreign_files),
        cmocka_unit_test(names_that_begin_alike),
        cmocka_unit_test(failed_seal),
        cmocka_unit_test(not_now),
        cmocka_unit_test(names_come_again),
        cmocka_unit_test(what_is_swept),
        cmocka_unit_test(what_is_dropped),
        cmocka_unit_test(no_use_and_no_room),
        cmocka_unit_test(directories),
        cmocka_unit_test(slots_of_other_jobs),
        cmocka_unit_test(older_slots),
    };
    const char *faults = "place.persist:1:2:EIO,place.map:3:1:ENOMEM,"
                         "place.allocate:4:2:ENOSPC,place.allocate:4:4:ENOSPC";
    if (setenv("FTKIT_FAULT", faults, 1) != 0 || !mkdtemp(dir) || !mkdtemp(after))
        return 1;
    char cmd[160];
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(cmd, sizeof cmd, "rm -rf %s %s", dir, after);
    return system(cmd) == 0 ? rc : 1;
}

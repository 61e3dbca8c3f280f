/* Plain files of regions of files: a set has them as the program wrote them, and gives the same
 * bytes back; no failing call, kill, damage or planted name ever gives other ones, or leads
 * elsewhere.
 *
 * The children of the fault tests are this program with "--write" or "--prune", and FTKIT_FAULT.
 * `t_plain_files --write-golden WORK DIR` makes the set in tests/data/set-files-v1.tar.gz; the
 * one there was made by an ftkit without plain files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "t_h5.h"

#include "store/plain_files.h"

#define RANKS 2 /* each writes a part */
#define LAST "sub/deeper/last"
#define GOLDEN 9 /* the set in tests/data, with smaller files */

static bool inside; /* write the files into the HDF5 file */
static const char *of_context = CONTEXT;
static int many; /* files more in each tree */
static bool odd; /* the object of the program is an archive with other gaps */
static const char *names[] = { "restart", "out put" }; /* regions of files */

/* ---- trees and segments -------------------------------------------------------------- */

static const char *in(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *in(const char *fmt, ...)
{
    static char text[8][FTK_PATH_MAX];
    static unsigned turn;
    char *p = text[turn++ % 8];
    va_list args;
    va_start(args, fmt);
    vsnprintf(p, FTK_PATH_MAX, fmt, args);
    va_end(args);
    return p;
}

static void run(const char *command)
{
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void make_file(const char *path, size_t bytes, mode_t mode, uint64_t seed)
{
    uint64_t x = seed * 77 + bytes + 1;
    char *text = malloc(bytes + 8);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i += 8) {
        (void)next_random(&x);
        memcpy(text + i, &x, 8);
    }
    write_file(path, text, bytes);
    free(text);
    assert_int_equal(chmod(path, mode), 0);
}

/* The tree of a region, always the same for the same numbers. */
static const char *source(uint64_t set, uint32_t rank, int region)
{
    static char top[128];
    const uint64_t seed = set * 10 + rank;
    snprintf(top, sizeof top, "%s/source-%d-%u-%d", work, (int)set, rank, region);
    if (exists(top))
        return top;
    assert_int_equal(mkdir(top, 0700), 0);
    make_file(in("%s/x.bin", top), region == 0 && set != GOLDEN ? 300000 : 70, 0644, seed);
    if (region != 0)
        return top;
    make_file(in("%s/none", top), 0, 0600, seed);
    make_file(in("%s/.hidden", top), 1, 0777, seed);
    make_file(in("%s/a\nb", top), 64, 0400, seed);
    make_file(in("%s/%0255d", top, 7), 65, 0440, seed);
    assert_int_equal(mkdir(in("%s/empty", top), 0755), 0);
    assert_int_equal(mkdir(in("%s/sub", top), 0755), 0);
    assert_int_equal(mkdir(in("%s/sub/deeper", top), 0711), 0);
    make_file(in("%s/" LAST, top), 4097, 0444, seed);
    make_file(in("%s/sub-file", top), 5, 0600, seed);
    if (set == GOLDEN)
        return top;
    for (int i = 0; i < many; i++)
        make_file(in("%s/many-%d", top, i), (size_t)i, 0600, seed);
    int fd = open(in("%s/holes", top), O_WRONLY | O_CREAT, 0600); /* zeros, bytes, zeros */
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "in the middle", 13, 2 << 20), 13);
    assert_int_equal(ftruncate(fd, (5 << 20) + 3), 0);
    assert_int_equal(close(fd), 0);
    return top;
}

static char *archive_of(const char *top, size_t *bytes)
{
    struct ftk_archive *a = NULL;
    CHECK_RC(FTKIT_OK, ftk_archive_scan(top, &a));
    *bytes = ftk_archive_bytes(a);
    char *buf = malloc(*bytes);
    assert_non_null(buf);
    CHECK_RC(FTKIT_OK, ftk_archive_read(a, buf, 0, *bytes));
    ftk_archive_free(a);
    return buf;
}

/* Regions: "step", the files, and an object of the program that begins like an archive. */
static void *segment_of(uint64_t set, uint32_t rank)
{
    enum { N = 4 };
    static char object[] =
        FTK_ARCHIVE_MAGIC " and what follows is no archive at all, but long enough";
    char *data[N] = { (char *)&set, NULL, NULL, object };
    size_t bytes[N] = { sizeof set, 0, 0, sizeof object };
    struct ftk_seg_region r[N] = { { .name = "step" }, { .name = "" }, { .name = "" },
        { .name = "object" } };
    uint64_t end = 0;
    for (int i = 0; i < 2; i++)
        data[1 + i] = archive_of(source(set, rank, i), &bytes[1 + i]);
    char *gaps = archive_of(source(set, rank, 1), &bytes[3]);
    gaps[bytes[3] - 71] ^= odd; /* in front of the only file, of 70 bytes */
    if (odd)
        data[3] = gaps;
    else
        bytes[3] = sizeof object;
    for (int i = 0; i < N; i++) {
        r[i].kind = i == 0 ? FTK_KIND_FLAT : FTK_KIND_SERIALIZED;
        r[i].basic = FTK_T_OPAQUE;
        r[i].elem_bytes = 1;
        r[i].count = r[i].bytes = bytes[i];
        r[i].offset = (end + 63) & ~63u;
        end = r[i].offset + r[i].bytes;
        if (i == 1 || i == 2)
            snprintf(r[i].name, sizeof r[i].name, "%s", names[i - 1]);
    }
    const size_t head_bytes = ftk_seg_head_bytes(N, end, BLOCK);
    struct ftk_seg_header *h = calloc(1, head_bytes + end);
    assert_non_null(h);
    *h = (struct ftk_seg_header){ .version = FTK_SEG_VERSION,
        .magic = FTK_SEG_MAGIC,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = head_bytes,
        .data_bytes = end,
        .set = set,
        .run = RUN,
        .rank = rank,
        .nranks = RANKS,
        .nregions = N,
        .block_bytes = BLOCK,
        .nblocks = (end + BLOCK - 1) / BLOCK,
        .context = "" };
    snprintf(h->context, sizeof h->context, "%s", of_context);
    memcpy(ftk_seg_regions(h), r, sizeof r);
    for (int i = 0; i < N; i++)
        memcpy(ftk_seg_data(h) + r[i].offset, data[i], bytes[i]);
    seal(h);
    free(data[1]);
    free(data[2]);
    free(gaps);
    return h;
}

static int one_segment(void *arg, const void **seg)
{
    *seg = arg;
    return FTKIT_OK;
}

static int put_part(uint64_t set, uint32_t rank, struct ftk_manifest_part *out)
{
    void *seg = segment_of(set, rank);
    const struct ftk_part_job job = { .dir = dir,
        .context = of_context,
        .set = set,
        .part = rank,
        .nsegs = 1,
        .deflate = deflate,
        .plain = !inside,
        .next = one_segment,
        .pace = set % 2 ? NULL : no_pace,
        .arg = seg };
    int rc = ftk_h5_write_job(&job, out);
    free(seg);
    return rc;
}

static int put_set(uint64_t set)
{
    struct ftk_manifest_part parts[RANKS];
    uint32_t of[RANKS] = { 0, 1 };
    struct ftk_manifest m = { .set = set,
        .run = RUN,
        .nranks = RANKS,
        .nparts = RANKS,
        .context = "",
        .parts = parts,
        .part_of = of };
    snprintf(m.context, sizeof m.context, "%s", of_context);
    int rc = begin_set(dir, of_context, set);
    for (uint32_t r = 0; r < RANKS && rc == FTKIT_OK; r++)
        rc = put_part(set, r, &parts[r]);
    return rc == FTKIT_OK ? ftk_h5_commit(dir, 0, &m) : rc;
}

/* Memory that was used before. */
static int used_room(void *arg, size_t bytes, void **at)
{
    *at = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    assert_non_null(*at);
    memset(*at, 0x5a, bytes);
    *(void **)arg = *at;
    return FTKIT_OK;
}

/* Read the segment of a rank; what comes back is what was written. */
static int get_rank(uint64_t set, uint32_t rank)
{
    struct ftk_manifest m;
    void *seg = NULL, *want = segment_of(set, rank);
    int rc = ftk_h5_open_set(dir, of_context, set, true, &m);
    if (rc == FTKIT_OK) {
        rc = ftk_h5_read_into(dir, &m, (int)rank, used_room, &seg);
        ftk_manifest_free(&m);
    }
    if (rc == FTKIT_OK && memcmp(seg, want, ftk_seg_bytes(want)) != 0)
        fail_msg("set %d, rank %u: other bytes came back", (int)set, rank);
    free(want);
    free(seg);
    return rc;
}

static int get_set(uint64_t set)
{
    int rc = FTKIT_OK;
    for (uint32_t r = 0; rc == FTKIT_OK && r < RANKS; r++)
        rc = get_rank(set, r);
    return rc;
}

/* ---- findings ------------------------------------------------------------------------ */

static struct ftk_finding findings[16];
static int nfindings;

static void note(const struct ftk_finding *f, void *arg)
{
    (void)arg;
    assert_true(nfindings < (int)COUNT(findings));
    findings[nfindings++] = *f;
}

static int verify_rank(uint64_t set, uint32_t rank)
{
    struct ftk_manifest m;
    nfindings = 0;
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, set, false, &m));
    int rc = ftk_sets_level(FTK_DURABLE_HDF5)->verify(dir, &m, rank, note, NULL);
    ftk_manifest_free(&m);
    assert_int_equal(rc != FTKIT_OK, nfindings > 0);
    return rc;
}

/* ---- what a set has ------------------------------------------------------------------ */

/* The same names, permissions, lengths and bytes. */
static void same_trees(uint64_t set, uint32_t rank, int region, const char *name)
{
    static const char list[] =
        "find . -mindepth 1 -type d -printf '%m %p\\n' -o -printf '%m %s %p\\n'";
    const char *want = source(set, rank, region);
    const char *have = path_of(set, in("files/%s/rank-%05u", name, rank));
    run(in("diff -r '%s' '%s'", want, have));
    run(in("cd '%s' && %s | sort > '%s/want'", want, list, work));
    run(in("cd '%s' && %s | sort | cmp - '%s/want'", have, list, work));
}

static void comes_back(void **state)
{
    (void)state;
    struct stat st, holes;
    CHECK_RC(FTKIT_OK, put_set(1)); /* without, and with pauses */
    CHECK_RC(FTKIT_OK, put_set(2));
    const int before = handles();
    for (uint64_t set = 1; set <= 2; set++) {
        CHECK_RC(FTKIT_OK, get_set(set));
        for (uint32_t r = 0; r < RANKS; r++) {
            CHECK_RC(FTKIT_OK, verify_rank(set, r));
            same_trees(set, r, 0, names[0]);
            same_trees(set, r, 1, names[1]);
        }
    }
    CHECK_RC(FTKIT_OK, put_set(3));
    assert_int_equal(handles(), before);
    assert_int_equal(stat(path_of(1, "part-00000.h5"), &st), 0);
    assert_true(st.st_size < 100000); /* the bytes of the files are not in it */
    assert_int_equal(stat(path_of(1, "files/restart/rank-00000/holes"), &holes), 0);
    assert_int_equal(holes.st_size, (5 << 20) + 3);
    assert_true(holes.st_blocks * 512 < 4 << 20); /* zeros take no room */
    struct ftk_set_entry e;
    CHECK_RC(FTKIT_OK, ftk_sets_examine(dir, CONTEXT, 1, &e));
    assert_true(e.bytes > 2 * (300000u + (5 << 20)));
}

static void inside_of_hdf5(void **state)
{
    (void)state;
    inside = true;
    CHECK_RC(FTKIT_OK, put_set(1));
    inside = false;
    assert_false(exists(path_of(1, "files")));
    CHECK_RC(FTKIT_OK, get_set(1));
    CHECK_RC(FTKIT_OK, put_set(2));
    CHECK_RC(FTKIT_OK, get_set(2));
    CHECK_RC(FTKIT_OK, get_set(1));
}

/* An object that is nearly an archive comes back, too. */
static void odd_archive(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, put_set(1));
    assert_false(exists(path_of(1, "files/object")));
    odd = true;
    CHECK_RC(FTKIT_OK, put_set(2));
    CHECK_RC(FTKIT_OK, get_set(2));
    assert_false(exists(path_of(2, "files/object")));
    odd = false;
}

struct watch {
    int fd;
    size_t bytes;
    bool seen; /* a new time, before all was written */
};

static int look_at_sign(void *arg, size_t bytes)
{
    struct watch *w = arg;
    struct stat st;
    assert_int_equal(fstat(w->fd, &st), 0);
    w->bytes += bytes;
    w->seen = w->seen || (st.st_mtime != 1 && w->bytes < 30 << 20);
    return FTKIT_OK;
}

/* A process that waits sees that a large file is being written. */
static void shows_progress(void **state)
{
    (void)state;
    const char *top = in("%s/large", dir);
    size_t bytes;
    assert_int_equal(mkdir(top, 0700), 0);
    make_file(in("%s/large/file", dir), 40 << 20, 0600, 1);
    char *a = archive_of(in("%s/large", dir), &bytes);
    struct ftk_archive_list list;
    uint64_t sum;
    const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    struct watch w = { .fd = open(in("%s/sign", dir), O_WRONLY | O_CREAT, 0600) };
    const struct ftk_plain p = { open(dir, O_RDONLY | O_DIRECTORY), 1, 0, "restart" };
    const struct ftk_plain_pace pace = { look_at_sign, &w, w.fd };
    assert_int_equal(futimens(w.fd, old), 0);
    CHECK_RC(FTKIT_OK, ftk_archive_list(a, bytes, bytes, &list));
    CHECK_RC(FTKIT_OK, ftk_plain_write(&p, a, &list, &pace, &sum));
    assert_true(w.seen);
    assert_int_equal(w.bytes, 40 << 20);
    free(list.v);
    free(a);
    close(p.dirfd);
    close(w.fd);
}

/* A set of an ftkit that had no plain files. */
static void older_set(void **state)
{
    (void)state;
    const char *slash = strrchr(__FILE__, '/');
    const int top = slash ? (int)(slash - __FILE__) - (int)strlen("unit") : 0;
    run(in("tar xzf '%.*sdata/set-files-v1.tar.gz' -C '%s'", top, __FILE__, dir));
    CHECK_RC(FTKIT_OK, get_set(GOLDEN));
    assert_false(exists(path_of(GOLDEN, "files")));
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK_RC(FTKIT_OK, verify_rank(GOLDEN, r));
}

static void many_files(void **state)
{
    (void)state;
    many = 1000;
    CHECK_RC(FTKIT_OK, put_set(7));
    CHECK_RC(FTKIT_OK, get_set(7));
    assert_true(exists(path_of(7, "files/restart/rank-00001/many-999")));
    many = 0;
}

static void strange_names(void **state)
{
    (void)state;
    static const char *const strange[] = { ".", "..", "...", "ftkit.head", "a b'c\"", "~",
        "63 bytes, the longest name that a region can have, 80% of it..." };
    for (size_t i = 0; i < COUNT(strange); i++) {
        names[0] = strange[i];
        CHECK_RC(FTKIT_OK, put_set(1 + i));
        CHECK_RC(FTKIT_OK, get_set(1 + i));
    }
    names[0] = "restart";
    assert_true(exists(path_of(1, "files/ftkit.region../rank-00001/x.bin")));
    assert_true(exists(path_of(2, "files/ftkit.region.../rank-00001/x.bin")));
    assert_false(exists(path_of(1, "rank-00001")));
}

/* One region of the rank alone, as an export reads it. */
static void one_region(void **state)
{
    (void)state;
    struct ftk_manifest m;
    void *seg = NULL;
    const struct ftk_seg_region *r = NULL;
    size_t bytes;
    CHECK_RC(FTKIT_OK, put_set(1));
    char *want = archive_of(source(1, 1, 0), &bytes);
    CHECK_RC(FTKIT_OK, ftk_sets_open(dir, CONTEXT, 1, &m));
    CHECK_RC(FTKIT_OK, ftk_sets_region(dir, &m, 1, "restart", &seg, &r));
    assert_int_equal(r->bytes, bytes);
    assert_memory_equal(ftk_seg_data_c(seg) + r->offset, want, bytes);
    free(seg);
    free(want);
    assert_int_equal(unlink(path_of(1, "files/restart/rank-00001/none")), 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_sets_region(dir, &m, 1, "restart", &seg, &r));
    ftk_manifest_free(&m);
}

static void two_contexts(void **state)
{
    (void)state;
    for (uint64_t set = 1; set <= 3; set++) {
        of_context = set % 2 ? "one" : "two";
        CHECK_RC(FTKIT_OK, put_set(set));
        CHECK_RC(FTKIT_OK, put_set(set + 10));
    }
    for (uint64_t set = 1; set <= 3; set++) {
        of_context = set % 2 ? "one" : "two";
        CHECK_RC(FTKIT_OK, get_set(set));
        CHECK_RC(FTKIT_OK, get_set(set + 10));
    }
    of_context = CONTEXT;
}

/* ---- damage -------------------------------------------------------------------------- */

#define AT "files/restart/rank-00001"
#define SET1 "set-0000000001/"

/* A change in the directory of set 1, by the shell; what the error names. */
static const struct damage {
    const char *change, *words, *file;
    int code; /* of the finding */
} damages[] = {
    { "printf x | dd of=" AT "/x.bin bs=1 seek=299999 conv=notrunc 2>/dev/null",
        "files 'restart': x.bin has changed: its checksum differs", AT "/x.bin",
        FTKIT_ERR_CORRUPT },
    { "printf x | dd of=" AT "/holes bs=1 seek=5000000 conv=notrunc 2>/dev/null",
        "holes has changed: its checksum differs", AT "/holes", FTKIT_ERR_CORRUPT },
    { "truncate -s 299999 " AT "/x.bin", "x.bin has 299999 bytes instead of 300000", AT "/x.bin",
        FTKIT_ERR_CORRUPT },
    { "truncate -s 0 " AT "/" LAST, "/last has 0 bytes instead of 4097", AT "/" LAST,
        FTKIT_ERR_CORRUPT },
    { "printf x >> " AT "/none", "none has 1 bytes instead of 0", AT "/none", FTKIT_ERR_CORRUPT },
    { "rm " AT "/none", "none is missing", AT "/none", FTKIT_ERR_NOT_FOUND },
    { "rm " AT "/" LAST, LAST " is missing", AT "/" LAST, FTKIT_ERR_NOT_FOUND },
    { "rmdir " AT "/empty", "empty is missing", AT "/empty", FTKIT_ERR_NOT_FOUND },
    { "rm -r " AT, "its directory is missing", AT, FTKIT_ERR_NOT_FOUND },
    { "rm -r files/restart", "its directory is missing", AT, FTKIT_ERR_NOT_FOUND },
    { "rm -r files", "its directory is missing", AT, FTKIT_ERR_NOT_FOUND },
    { "touch " AT "/new", "new is a file that the set does not have", AT "/new", FTKIT_ERR_FORMAT },
    { "touch " AT "/empty/new", "empty/new is a file that the set does not have", AT "/empty/new",
        FTKIT_ERR_FORMAT },
    { "mkdir " AT "/sub/new", "sub/new is a directory that the set", AT "/sub/new",
        FTKIT_ERR_FORMAT },
    { "ln -s / " AT "/new", "new is a symbolic link that the set does not have", AT "/new",
        FTKIT_ERR_FORMAT },
    { "mv " AT "/x.bin ../copy; ln -s ../../../../copy " AT "/x.bin",
        "x.bin is a symbolic link, not a file", AT "/x.bin", FTKIT_ERR_FORMAT },
    { "mv " AT "/sub ../copy; ln -s ../../../../copy " AT "/sub",
        "sub is a symbolic link, not a directory", AT "/sub", FTKIT_ERR_FORMAT },
    { "mv " AT " ../copy; ln -s ../../../copy " AT, "its directory is a link", AT,
        FTKIT_ERR_FORMAT },
    { "mv files/restart ../copy; ln -s ../../copy files/restart", "its directory is a link", AT,
        FTKIT_ERR_FORMAT },
    { "mv files ../copy; ln -s ../copy files", "its directory is a link", AT, FTKIT_ERR_FORMAT },
    { "rm " AT "/none; mkfifo " AT "/none", "none is no file, not a file", AT "/none",
        FTKIT_ERR_FORMAT },
    { "rm " AT "/none; mkdir " AT "/none", "none is a directory, not a file", AT "/none",
        FTKIT_ERR_FORMAT },
    { "rmdir " AT "/empty; touch " AT "/empty", "empty is a file, not a directory", AT "/empty",
        FTKIT_ERR_FORMAT },
    { "mv " AT "/x.bin " AT "/y.bin", "is ", AT "/y.bin", FTKIT_ERR_FORMAT },
    { "cp files/restart/rank-00000/x.bin " AT "/x.bin", "x.bin has changed", AT "/x.bin",
        FTKIT_ERR_CORRUPT },
};

static bool was_found(const struct damage *d)
{
    for (int i = 0; i < nfindings; i++)
        if (strcmp(findings[i].file, d->file) == 0 && findings[i].code == d->code
            && findings[i].rank == 1)
            return true;
    return false;
}

static void every_damage(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, put_set(1));
    char context[FTK_PATH_MAX];
    assert_int_equal(ftk_sets_dir_path(dir, CONTEXT, context), FTKIT_OK);
    run(in("cp -a '%s' '%s/good'", context, dir));
    const int before = handles();
    for (size_t i = 0; i < COUNT(damages); i++) {
        const struct damage *d = &damages[i];
        run(in("cd '%s/" SET1 "' && %s", context, d->change));
        CHECK_RC(FTKIT_ERR_CORRUPT, get_rank(1, 1));
        const char *text = ftk_detail_text();
        if (!strstr(text, d->words) || !strstr(text, "set 1, rank 1, files 'restart': "))
            fail_msg("%s: %s", d->change, text);
        if (!strstr(d->change, "files/restart ") && !strstr(d->change, " files"))
            CHECK_RC(FTKIT_OK, get_rank(1, 0));
        assert_int_not_equal(verify_rank(1, 1), FTKIT_OK);
        if (!was_found(d))
            fail_msg("%s: not found: %s", d->change, findings[0].file);
        run(in("rm -rf '%s' && cp -a '%s/good' '%s'", context, dir, context));
        CHECK_RC(FTKIT_OK, get_set(1));
    }
    assert_int_equal(handles(), before);
}

/* A permission is not a byte: copies of sets often have other ones. */
static void other_modes(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, put_set(1));
    run(in("chmod -R u+rwX,g+rX '%s'", path_of(1, "files")));
    CHECK_RC(FTKIT_OK, get_set(1));
    CHECK_RC(FTKIT_OK, verify_rank(1, 1));
}

static void all_damage_is_named(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, put_set(1));
    run(in("cd '%s' && rm none && printf y | dd of=x.bin bs=1 conv=notrunc 2>/dev/null && touch new"
           " && printf y >> .hidden && touch '../../out put/rank-00001/new'",
        path_of(1, AT)));
    assert_int_not_equal(verify_rank(1, 1), FTKIT_OK);
    assert_int_equal(nfindings, 5);
    CHECK_RC(FTKIT_OK, verify_rank(1, 0));
}

/* What belongs to no region of a rank harms no restart, and ftkit verify names it. */
static void strangers(void **state)
{
    (void)state;
    static const char *const made[] = { "files/new/new", "files/restart/new",
        "files/restart/rank-00002", "files/restart/rank-1", "files/other/rank-00000" };
    CHECK_RC(FTKIT_OK, put_set(1));
    for (size_t i = 0; i < COUNT(made); i++) {
        run(in("mkdir -p '%s' && touch '%s/new'", path_of(1, made[i]), path_of(1, made[i])));
        CHECK_RC(FTKIT_OK, get_set(1));
        CHECK_RC(FTKIT_OK, verify_rank(1, 1));
        CHECK_RC(FTKIT_ERR_FORMAT, verify_rank(1, 0));
        if (nfindings != 1 || strcmp(findings[0].file, made[i]) != 0)
            fail_msg("%s: %d findings, %s", made[i], nfindings, findings[0].file);
        run(in("rm -r '%s'", path_of(1, made[i])));
        CHECK_RC(FTKIT_OK, verify_rank(1, 0));
    }
    run(in("mkdir -p '%s'", path_of(1, "files/other/rank-00001")));
    CHECK_RC(FTKIT_ERR_FORMAT, verify_rank(1, 1));
    CHECK_RC(FTKIT_OK, verify_rank(1, 0));
}

/* Reading fails without a damage: another code, so that nobody takes the set for bad. */
static void unreadable_file(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, put_set(1));
    ftk_fault_rank(7, 0); /* files.plain.read:7:2:EIO, of main() */
    CHECK_RC(FTKIT_ERR_IO, get_rank(1, 1));
    assert_non_null(strstr(ftk_detail_text(), "files 'restart': "));
    ftk_fault_rank(0, 0);
    CHECK_RC(FTKIT_OK, get_rank(1, 1));
}

/* ---- names that lead elsewhere, before the set is written ---------------------------- */

static void planted_links(void **state)
{
    (void)state;
    static const char *const links[] = { "files", "files/restart", "files/restart/rank-00001" };
    for (size_t i = 0; i < COUNT(links); i++) {
        struct ftk_manifest_part part;
        const uint64_t set = 1 + i;
        const char *outside = in("%s/outside-%zu", dir, i);
        assert_int_equal(mkdir(outside, 0777), 0);
        make_file(in("%s/theirs", outside), 10, 0600, 1);
        CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, set));
        run(in("cd '%s' && mkdir -p '%s' && rmdir '%s' && ln -s '%s' '%s'", path_of(set, ""),
            links[i], links[i], outside, links[i]));
        CHECK_RC(FTKIT_ERR_IO, put_part(set, 1, &part));
        run(in("test \"$(ls '%s')\" = theirs", outside));
        CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, set, 0, NULL));
        CHECK_RC(FTKIT_OK, ftk_sets_remove(dir, CONTEXT, set));
        run(in("test \"$(ls '%s')\" = theirs", outside));
    }
}

/* What an earlier attempt has left does not become a part of the set. */
static void leftovers_go(void **state)
{
    (void)state;
    struct ftk_manifest_part parts[RANKS];
    uint32_t of[RANKS] = { 0, 1 };
    struct ftk_manifest m = { .set = 1,
        .run = RUN,
        .nranks = RANKS,
        .nparts = RANKS,
        .context = CONTEXT,
        .parts = parts,
        .part_of = of };
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    run(in("mkdir -p '%s' && cd '%s' && touch new x.bin && mkdir -p sub/more empty && touch "
           "sub/more/f && ln -s / away && chmod 0 empty",
        path_of(1, AT), path_of(1, AT)));
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK_RC(FTKIT_OK, put_part(1, r, &parts[r]));
    CHECK_RC(FTKIT_OK, ftk_h5_commit(dir, 0, &m));
    CHECK_RC(FTKIT_OK, get_set(1));
    same_trees(1, 1, 0, names[0]);
}

/* ---- faults and kills ---------------------------------------------------------------- */

static const struct fault {
    const char *point;
    int nth;
} faults[] = {
    { "files.plain.mkdir", 1 },
    { "files.plain.mkdir", 3 },
    { "files.plain.mkdir", 5 },
    { "files.plain.create", 1 },
    { "files.plain.create", 2 },
    { "files.plain.create", 9 },
    { "files.plain.create", 13 },
    { "files.plain.write", 1 },
    { "files.plain.write", 4 },
    { "files.plain.write", 12 },
    { "files.plain.write", 20 },
    { "files.plain.fsync", 1 },
    { "files.plain.fsync", 7 },
    { "files.plain.fsync", 12 },
    { "files.plain.close", 1 },
    { "files.plain.close", 10 },
    { "files.plain.dirsync", 1 },
    { "files.plain.dirsync", 4 },
    { "files.plain.dirsync", 6 },
    { "files.plain.dirsync", 18 },
    { "h5.part.rename", 2 },
    { "h5.manifest.rename", 1 },
};

/* In the child: set 2 fails, set 1 holds, the next attempt succeeds. */
static int child_write(void)
{
    const int before = handles();
    int rc = put_set(2);
    if (rc == FTKIT_OK)
        return 100; /* the fault was not reached */
    if (!*ftk_detail_text() || handles() != before)
        return 101;
    if (strcmp(listed(), "1") != 0 || get_set(1) != FTKIT_OK)
        return 102;
    return put_set(2) == FTKIT_OK && get_set(2) == FTKIT_OK ? -rc : 103;
}

static int child_prune(void)
{
    int rc = ftk_sets_prune(dir, CONTEXT, RUN, 1);
    if (rc == FTKIT_OK)
        return 100;
    if (get_set(3) != FTKIT_OK)
        return 101;
    return ftk_sets_prune(dir, CONTEXT, RUN, 1) == FTKIT_OK ? -rc : 102;
}

/* Run this program with a fault; its wait status. */
static int run_child(const char *what, const struct fault *f, const char *action)
{
    int status = -1;
    const char *rule = in("%s:*:%d:%s", f->point, f->nth, action);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("FTKIT_FAULT", rule, 1);
        execl("/proc/self/exe", "t_plain_files", what, work, dir, (char *)NULL);
        _exit(120);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Where each takes long, one case in N, an odd number: every second case is of another kind. */
static size_t next_case(size_t n)
{
    return getenv("FTKIT_TEST_FEW") ? n : 1;
}

static void faults_are_clean(void **state)
{
    for (size_t i = 0; i < COUNT(faults); i += next_case(3)) {
        const struct fault *f = &faults[i];
        const bool full = i % 2 == 1;
        new_dir(state);
        CHECK_RC(FTKIT_OK, put_set(1));
        int status = run_child("--write", f, full ? "ENOSPC" : "EIO");
        int want = full ? -FTKIT_ERR_NOSPACE : -FTKIT_ERR_IO;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
            fail_msg("%s:%d: status %#x", f->point, f->nth, (unsigned)status);
        assert_string_equal(listed(), "2 1");
        CHECK_RC(FTKIT_OK, get_set(2));
    }
}

static void kills_are_clean(void **state)
{
    for (size_t i = 0; i < COUNT(faults); i += next_case(3)) {
        const struct fault *f = &faults[i];
        new_dir(state);
        CHECK_RC(FTKIT_OK, put_set(1));
        int status = run_child("--write", f, "kill");
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("%s:%d: status %#x", f->point, f->nth, (unsigned)status);
        assert_string_equal(listed(), "1");
        CHECK_RC(FTKIT_OK, get_set(1));
        if (i % 2) { /* another attempt, or the leftovers go */
            CHECK_RC(FTKIT_OK, put_set(2));
            CHECK_RC(FTKIT_OK, get_set(2));
        } else {
            CHECK_RC(FTKIT_OK, put_set(3));
            CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 9));
            assert_string_equal(listed(), "3 1");
            assert_false(exists(path_of(2, "")));
        }
    }
}

static void prune_removes_all(void **state)
{
    const struct fault all[] = { { "h5.prune", 1 }, { "h5.prune", 2 }, { "h5.prune", 6 },
        { "h5.prune", 9 }, { "h5.prune", 12 }, { "h5.prune", 20 } };
    for (size_t i = 0; i < 2 * COUNT(all); i += next_case(5)) {
        const bool killed = i % 2;
        new_dir(state);
        for (uint64_t set = 1; set <= 3; set++)
            CHECK_RC(FTKIT_OK, put_set(set));
        int status = run_child("--prune", &all[i / 2], killed ? "kill" : "EIO");
        if (killed ? !WIFSIGNALED(status)
                   : !WIFEXITED(status) || WEXITSTATUS(status) != -FTKIT_ERR_IO)
            fail_msg("h5.prune:%d: status %#x", all[i / 2].nth, (unsigned)status);
        CHECK_RC(FTKIT_OK, get_set(3));
        for (const char *t = listed(); *t; t += strspn(t, " 0123456789"))
            CHECK_RC(FTKIT_OK, get_set(strtoull(t, NULL, 10)));
        CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 1));
        assert_string_equal(listed(), "3");
        assert_false(exists(path_of(1, "")) || exists(path_of(2, "")));
    }
}

/* ---- a file of more than 4 GiB, of zeros but for its ends ---------------------------- */

static void large_file(void **state)
{
    (void)state;
    if (!all_cases())
        skip();
    const size_t bytes = ((size_t)4 << 30) + 12345, head = 128, all = head + bytes;
    char *a =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(a != MAP_FAILED);
    struct ftk_archive_head h = { .version = FTK_ARCHIVE_VERSION,
        .byte_order = FTK_ARCHIVE_BYTE_ORDER,
        .nentries = 1,
        .head_bytes = 96,
        .bytes = all };
    const struct ftk_archive_entry e = { head, bytes, 0600, FTK_ARCHIVE_FILE, 5 };
    memcpy(h.magic, FTK_ARCHIVE_MAGIC, sizeof h.magic);
    memcpy(a, &h, sizeof h);
    memcpy(a + sizeof h, &e, sizeof e);
    memcpy(a + sizeof h + sizeof e, "large", 6);
    h.sum = ftk_archive_sum(&h, a);
    memcpy(a, &h, sizeof h);
    a[head] = 'a';
    a[all - 1] = 'z';
    struct ftk_archive_list list;
    uint64_t sums[2] = { 0 };
    const struct ftk_plain_pace pace = { NULL, NULL, -1 };
    const struct ftk_plain_reader reader = { NULL, NULL, NULL, NULL };
    CHECK_RC(FTKIT_OK, ftk_archive_list(a, 96, all, &list));
    const struct ftk_plain p = { open(dir, O_RDONLY | O_DIRECTORY), 1, 0, "restart" };
    CHECK_RC(FTKIT_OK, ftk_plain_write(&p, a, &list, &pace, sums));
    struct stat st;
    assert_int_equal(stat(in("%s/files/restart/rank-00000/large", dir), &st), 0);
    assert_int_equal(st.st_size, bytes);
    assert_true(st.st_blocks * 512 < 16 << 20);
    CHECK_RC(FTKIT_OK, ftk_plain_read(&p, a, &list, sums, &reader));
    assert_true(a[head] == 'a' && a[all - 1] == 'z');
    run(in("printf x | dd of='%s/files/restart/rank-00000/large' bs=1 seek=4294967298 conv=notrunc"
           " 2>/dev/null",
        dir));
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_plain_read(&p, a, &list, sums, &reader));
    free(list.v);
    close(p.dirfd);
    munmap(a, all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(comes_back),
        TEST_PACKED(comes_back),
        TEST(inside_of_hdf5),
        TEST(odd_archive),
        TEST(shows_progress),
        TEST(older_set),
        TEST(many_files),
        TEST(strange_names),
        TEST(one_region),
        TEST(two_contexts),
        TEST(every_damage),
        TEST(other_modes),
        TEST(all_damage_is_named),
        TEST(strangers),
        TEST(unreadable_file),
        TEST(planted_links),
        TEST(leftovers_go),
        TEST(faults_are_clean),
        TEST(kills_are_clean),
        TEST(prune_removes_all),
        TEST(large_file),
    };
    umask(022);
    if (argc == 4) {
        H5open();
        snprintf(work, sizeof work, "%s", argv[2]);
        snprintf(dir, sizeof dir, "%s", argv[3]);
        if (strcmp(argv[1], "--write-golden") == 0) {
            inside = true;
            return put_set(GOLDEN) == FTKIT_OK ? 0 : 1;
        }
        return strcmp(argv[1], "--write") == 0 ? child_write() : child_prune();
    }
    snprintf(work, sizeof work, "/dev/shm/tXXXXXX"); /* a disk takes minutes for all the fsync() */
    setenv("FTKIT_FAULT", "files.plain.read:7:2:EIO", 1);
    ftk_fault_rank(0, 0);
    return cmocka_run_group_tests(tests, make_work, remove_work);
}

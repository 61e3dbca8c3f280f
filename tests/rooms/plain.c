/* A durable level for tests/rooms.t: plain files.  A part is the segments, one after the other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/plain-0000000012/part-00000   one per writer
 *                                            unfinished   until there is a manifest
 *                                            manifest     written last: the set is complete
 *
 * A set without a manifest is unfinished if it has the mark or no whole file, else damaged. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "sets.h"
#include "store/file.h"

#define WORD "plain"
#define MARK "unfinished"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PIECE ((size_t)1 << 20)

static const struct ftk_file_points part_points = { .write = "plain.write" };
static const struct ftk_file_points manifest_points = { .rename = "plain.manifest" };
static const struct ftk_file_points mark_points;

/* ---- names --------------------------------------------------------------------------- */

static void part_name(uint32_t part, char name[FTK_SETS_DIR_NAME_MAX])
{
    snprintf(name, FTK_SETS_DIR_NAME_MAX, "part-%05" PRIu32, part);
}

/* FTKIT_ERR_NOT_FOUND: there is nothing of the set. */
static int open_set(const char *dir, const char *context, uint64_t set, int *fd)
{
    int rc = ftk_sets_dir_check(context);
    *fd = rc == FTKIT_OK ? ftk_sets_dir_open_set(dir, context, WORD, set) : -1;
    if (*fd >= 0 || rc != FTKIT_OK)
        return rc;
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
               ? ftk_fail(FTKIT_ERR_NOT_FOUND, "no set %" PRIu64 " of '%s'", set, context)
               : ftk_fail_errno(errno, "set %" PRIu64 " of '%s' in %s", set, context, dir);
}

/* Call fn for each name in a directory; the first error. */
static int each_name(int dirfd, int (*fn)(int dirfd, const char *name, void *arg), void *arg)
{
    const int copy = openat(dirfd, ".", OPEN_DIR); /* closedir() closes it */
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        if (copy >= 0)
            close(copy);
        return ftk_fail(FTKIT_ERR_IO, "a directory of sets cannot be read");
    }
    int rc = FTKIT_OK;
    const struct dirent *e;
    for (errno = 0; rc == FTKIT_OK && (e = readdir(d)); errno = 0)
        if (e->d_name[0] != '.')
            rc = fn(dirfd, e->d_name, arg);
    if (rc == FTKIT_OK && errno != 0)
        rc = ftk_fail_errno(errno, "directory of sets");
    closedir(d);
    return rc;
}

static bool is_there(int fd, const char *name)
{
    struct stat st;
    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int is_whole(int dirfd, const char *name, void *arg)
{
    (void)dirfd, (void)arg; /* a temporary file is not whole */
    return strstr(name, ".tmp") ? FTKIT_OK : FTKIT_ERR_EXISTS;
}

static bool is_unfinished(int fd)
{
    return !is_there(fd, FTK_MANIFEST_FILE)
           && (is_there(fd, MARK) || each_name(fd, is_whole, NULL) == FTKIT_OK);
}

/* ---- finding ------------------------------------------------------------------------- */

static int check_sizes(int fd, const struct ftk_manifest *m)
{
    for (uint32_t i = 0; i < m->nparts; i++) {
        char name[FTK_SETS_DIR_NAME_MAX];
        struct ftk_file f;
        size_t bytes;
        part_name(m->parts[i].part, name);
        int rc = ftk_file_open(fd, m->set, name, &f, &bytes);
        if (rc != FTKIT_OK)
            return rc;
        ftk_file_close(&f);
        if (bytes != m->parts[i].file_bytes)
            return ftk_fail(FTKIT_ERR_CORRUPT, "%s: %zu bytes, not %" PRIu64, f.what, bytes,
                m->parts[i].file_bytes);
    }
    return FTKIT_OK;
}

static int open_manifest(
    const char *dir, const char *context, uint64_t set, bool parts, struct ftk_manifest *m)
{
    int fd;
    int rc = open_set(dir, context, set, &fd);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_manifest_load(fd, context, set, m);
    if (rc == FTKIT_OK && parts)
        rc = check_sizes(fd, m);
    if (rc != FTKIT_OK)
        ftk_manifest_free(m);
    close(fd);
    return rc;
}

static int measure(int dirfd, const char *name, void *arg)
{
    struct ftk_set_entry *e = arg;
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
        e->bytes += (uint64_t)st.st_size;
        e->written_s = st.st_mtime > e->written_s ? st.st_mtime : e->written_s;
    }
    return FTKIT_OK;
}

static int examine(const char *dir, const char *context, uint64_t set, struct ftk_set_entry *e)
{
    struct ftk_manifest m;
    int fd;
    const int rc = open_set(dir, context, set, &fd);
    *e = (struct ftk_set_entry){ .set = set };
    if (rc != FTKIT_OK)
        return rc;
    (void)each_name(fd, measure, e); /* an error shows below */
    if (open_manifest(dir, context, set, true, &m) != FTKIT_OK) {
        snprintf(e->why, sizeof e->why, "%s", ftk_detail_text());
        e->state = is_unfinished(fd) ? FTK_SET_INCOMPLETE : FTK_SET_DAMAGED;
    } else {
        e->nranks = m.nranks;
        e->nparts = m.nparts;
        ftk_manifest_free(&m);
    }
    close(fd);
    return FTKIT_OK;
}

static int remove_file(int dirfd, const char *name, void *arg)
{
    (void)arg;
    if (strcmp(name, MARK) == 0 || unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return FTKIT_OK; /* the mark goes last */
    return ftk_fail_errno(errno, "remove %s", name);
}

static int remove_set(const char *dir, const char *context, uint64_t set)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    int fd;
    int rc = open_set(dir, context, set, &fd);
    if (rc != FTKIT_OK)
        return rc == FTKIT_ERR_NOT_FOUND ? FTKIT_OK : rc;
    if (renameat(fd, FTK_MANIFEST_FILE, fd, MARK) != 0 && errno != ENOENT)
        rc = ftk_fail_errno(errno, "remove set %" PRIu64, set);
    if (rc == FTKIT_OK)
        rc = each_name(fd, remove_file, NULL);
    if (rc == FTKIT_OK && unlinkat(fd, MARK, 0) != 0 && errno != ENOENT)
        rc = ftk_fail_errno(errno, "remove set %" PRIu64, set);
    close(fd);
    if (rc != FTKIT_OK)
        return rc;
    fd = ftk_sets_dir_open(dir, context);
    ftk_sets_dir_name(WORD, set, name);
    if (fd < 0 || (unlinkat(fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT))
        rc = ftk_fail_errno(errno, "remove %s", name);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- writing ------------------------------------------------------------------------- */

static int check(bool deflate)
{
    return deflate ? ftk_fail(FTKIT_ERR_UNSUPPORTED, "level.hdf5.compress: plain files have none")
                   : FTKIT_OK;
}

static size_t mark_text(uint64_t flush, char text[32])
{
    return (size_t)snprintf(text, 32, "flush = %016" PRIx64 "\n", flush);
}

/* Make the directory of a set in that of its context. */
static int make_directory(const char *dir, const char *context, uint64_t set)
{
    char path[FTK_PATH_MAX], name[FTK_SETS_DIR_NAME_MAX];
    int rc = ftk_sets_dir_path(dir, context, path);
    if (rc == FTKIT_OK && mkdir(path, 0777) != 0 && errno != EEXIST)
        rc = ftk_fail_errno(errno, "make %s", path);
    const int fd = rc == FTKIT_OK ? ftk_sets_dir_open(dir, context) : -1;
    ftk_sets_dir_name(WORD, set, name);
    if (rc == FTKIT_OK && (fd < 0 || mkdirat(fd, name, 0777) != 0))
        rc = ftk_fail_errno(errno, "make %s/%s", path, name);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make(const char *dir, const char *context, uint64_t set, uint64_t flush,
    const struct ftk_still *still)
{
    char text[32];
    struct ftk_set_entry e;
    int fd;
    int rc = examine(dir, context, set, &e);
    if (rc == FTKIT_OK && e.state != FTK_SET_INCOMPLETE)
        return ftk_fail(FTKIT_ERR_EXISTS, "set %" PRIu64 " in %s is there", set, dir);
    const bool there = rc == FTKIT_OK;
    if (rc == FTKIT_ERR_NOT_FOUND)
        rc = FTKIT_OK;
    if (rc == FTKIT_OK && still)
        rc = still->ask(still->arg);
    if (rc == FTKIT_OK && there)
        rc = remove_set(dir, context, set);
    if (rc == FTKIT_OK)
        rc = make_directory(dir, context, set);
    if (rc == FTKIT_OK)
        rc = open_set(dir, context, set, &fd);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_out_text(fd, set, MARK, &mark_points, text, mark_text(flush, text));
    close(fd);
    return rc;
}

static bool has_mark(int fd, uint64_t flush)
{
    char text[32] = "", want[32];
    const int mark = openat(fd, MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const ssize_t n = mark < 0 ? 0 : read(mark, text, sizeof text - 1);
    if (mark >= 0)
        close(mark);
    return n == (ssize_t)mark_text(flush, want) && strcmp(text, want) == 0;
}

/* Open the directory that was made with the number flush; 0: any. */
static int open_made(const char *dir, const char *context, uint64_t set, uint64_t flush, int *fd)
{
    int rc = open_set(dir, context, set, fd);
    if (rc != FTKIT_OK || flush == 0 || has_mark(*fd, flush))
        return rc;
    close(*fd);
    return ftk_fail(FTKIT_ERR_IO, "set %" PRIu64 " is not made", set);
}

static int marked(const char *dir, const char *context, uint64_t set, uint64_t flush)
{
    int fd;
    const int rc = open_made(dir, context, set, flush, &fd);
    if (rc == FTKIT_OK)
        close(fd);
    return rc == FTKIT_ERR_IO ? FTKIT_ERR_NOT_FOUND : rc;
}

static int drop(const char *dir, const char *context, uint64_t set, uint64_t flush,
    const struct ftk_still *still)
{
    int fd;
    int rc = open_made(dir, context, set, flush, &fd);
    if (rc == FTKIT_ERR_NOT_FOUND || rc == FTKIT_ERR_IO)
        return FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    const bool complete = is_there(fd, FTK_MANIFEST_FILE);
    close(fd);
    if (!complete && still)
        rc = still->ask(still->arg);
    return rc == FTKIT_OK && !complete ? remove_set(dir, context, set) : rc;
}

static int put_segment(
    const struct ftk_part_job *job, struct ftk_file *f, const char *seg, uint64_t at)
{
    const size_t all = ftk_seg_bytes(seg);
    int rc = FTKIT_OK;
    for (size_t n, done = 0; rc == FTKIT_OK && done < all; done += n) {
        n = all - done < PIECE ? all - done : PIECE;
        const int err = ftk_file_write(f, seg + done, n, at + done);
        if (err != 0)
            rc = ftk_fail_errno(err, "%s: write", f->what);
        else if (job->pace)
            rc = job->pace(job->arg, n);
    }
    return rc;
}

/* Each segment must be of the set, of the same run as the one before, and of a higher rank.  Add
 * to *bytes and sum. */
static int put_segments(
    const struct ftk_part_job *job, struct ftk_file *f, XXH3_state_t *sum, uint64_t *bytes)
{
    struct ftk_seg_header last = { .nranks = 0 };
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < job->nsegs; i++) {
        const void *seg = NULL;
        rc = job->next(job->arg, &seg);
        const struct ftk_seg_header *h = seg;
        if (rc == FTKIT_OK)
            rc = ftk_seg_check_head(h, (size_t)h->head_bytes, "segment in memory");
        if (rc != FTKIT_OK)
            break;
        if (h->set != job->set || strcmp(h->context, job->context) != 0
            || (i > 0 && (h->run != last.run || h->nranks != last.nranks || h->rank <= last.rank)))
            return ftk_fail(FTKIT_ERR_ARG, "%s: a segment of another set", f->what);
        last = *h;
        ftk_xxh3_update(sum, seg, (size_t)last.head_bytes);
        rc = put_segment(job, f, seg, *bytes);
        *bytes += last.head_bytes + last.data_bytes;
    }
    return rc;
}

static int write_part(const struct ftk_part_job *job, struct ftk_manifest_part *out)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    struct ftk_out o;
    uint64_t bytes = 0;
    int fd;
    int rc = open_made(job->dir, job->context, job->set, job->flush, &fd);
    if (rc != FTKIT_OK)
        return rc;
    XXH3_state_t *sum = XXH3_createState();
    part_name(job->part, name);
    rc = sum && XXH3_64bits_reset(sum) == XXH_OK
             ? ftk_out_create(&o, fd, job->set, name, &part_points)
             : ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum");
    if (rc == FTKIT_OK) {
        o.stays = job->pace != NULL;
        rc = put_segments(job, &o.file, sum, &bytes);
        if (rc == FTKIT_OK)
            rc = ftk_out_finish(&o);
        else
            ftk_out_discard(&o);
    }
    if (rc == FTKIT_OK)
        *out = (struct ftk_manifest_part){ job->part, (uint32_t)job->nsegs, bytes,
            XXH3_64bits_digest(sum) };
    XXH3_freeState(sum);
    close(fd);
    return rc;
}

static int look(const char *dir, const char *context, uint64_t set, uint32_t part, uint64_t *sign)
{
    char name[FTK_SETS_DIR_NAME_MAX], tmp[FTK_SETS_DIR_NAME_MAX + 8];
    struct stat st;
    int fd;
    int rc = open_set(dir, context, set, &fd);
    if (rc != FTKIT_OK)
        return rc;
    part_name(part, name);
    snprintf(tmp, sizeof tmp, "%s.tmp", name);
    *sign = fstatat(fd, tmp, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
    if (!is_there(fd, name))
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "set %" PRIu64 ": no %s", set, name);
    close(fd);
    return rc;
}

static int commit(const char *dir, uint64_t flush, const struct ftk_manifest *m)
{
    char *text = NULL;
    size_t bytes = 0;
    int fd;
    int rc = open_made(dir, m->context, m->set, flush, &fd);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_manifest_text(m, &text, &bytes);
    if (rc == FTKIT_OK) {
        rc = ftk_out_text(fd, m->set, FTK_MANIFEST_FILE, &manifest_points, text, bytes);
        free(text);
    }
    if (rc == FTKIT_OK)
        (void)unlinkat(fd, MARK, 0); /* beside a manifest the mark has no meaning */
    close(fd);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------- */

struct source {
    struct ftk_file file;
    size_t bytes;
    uint64_t at; /* of the next segment */
};

static int read_at(const struct source *s, void *to, uint64_t bytes, uint64_t at)
{
    char *p = to;
    if (at > s->bytes || bytes > s->bytes - at)
        return ftk_fail(FTKIT_ERR_CORRUPT, "%s: it is too short", s->file.what);
    while (bytes > 0) {
        const ssize_t n = pread(s->file.fd, p, (size_t)bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? ftk_fail_errno(errno, "%s: read", s->file.what)
                         : ftk_fail(FTKIT_ERR_CORRUPT, "%s: it has shrunk", s->file.what);
        p += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return FTKIT_OK;
}

/* Read the head at s->at, which must be that of a rank: malloc'd, also after an error. */
static int read_head(const struct source *s, const struct ftk_manifest *m, uint32_t rank,
    struct ftk_seg_header **out)
{
    struct ftk_seg_header h;
    int rc = read_at(s, &h, sizeof h, s->at);
    if (rc == FTKIT_OK && (h.head_bytes < sizeof h || h.head_bytes > s->bytes - s->at))
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: a head of impossible size", s->file.what);
    if (rc == FTKIT_OK && !(*out = malloc((size_t)h.head_bytes)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s: head", s->file.what);
    if (rc == FTKIT_OK)
        rc = read_at(s, *out, h.head_bytes, s->at);
    if (rc == FTKIT_OK)
        rc = ftk_seg_check_head(*out, (size_t)h.head_bytes, s->file.what);
    if (rc != FTKIT_OK)
        return rc;
    h = **out;
    if (h.set != m->set || h.run != m->run || h.rank != rank || h.nranks != m->nranks
        || strcmp((*out)->context, m->context) != 0)
        return ftk_fail(
            FTKIT_ERR_FORMAT, "%s: it has rank %u of set %" PRIu64, s->file.what, h.rank, h.set);
    return h.data_bytes <= s->bytes - s->at - h.head_bytes
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_CORRUPT, "%s: it is too short", s->file.what);
}

/* Called with each head of a part; the data follow the head at s->at. */
typedef int visit_fn(const struct source *s, const struct ftk_seg_header *head, void *arg);

/* Visit rank[n], the ranks of a part; *sum becomes the checksum of their heads. */
static int visit_ranks(struct source *s, const struct ftk_manifest *m, const uint32_t *rank,
    uint32_t n, visit_fn *fn, void *arg, uint64_t *sum)
{
    XXH3_state_t *x = XXH3_createState();
    int rc = x && XXH3_64bits_reset(x) == XXH_OK ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "checksum");
    for (uint32_t i = 0; rc == FTKIT_OK && i < n; i++) {
        struct ftk_seg_header *head = NULL;
        rc = read_head(s, m, rank[i], &head);
        if (rc == FTKIT_OK) {
            ftk_xxh3_update(x, head, (size_t)head->head_bytes);
            rc = fn(s, head, arg);
            s->at += ftk_seg_bytes(head);
        }
        free(head);
    }
    if (rc == FTKIT_OK && s->at != s->bytes)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: bytes behind the segments", s->file.what);
    if (rc == FTKIT_OK)
        *sum = XXH3_64bits_digest(x);
    XXH3_freeState(x);
    return rc;
}

/* Visit the heads of m->parts[index].  Its size and sum are put into *found; if found is NULL, the
 * sum is compared with that of the manifest. */
static int visit(const char *dir, const struct ftk_manifest *m, uint32_t index, visit_fn *fn,
    void *arg, struct ftk_manifest_part *found)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    struct source s = { .at = 0 };
    const struct ftk_manifest_part *p = &m->parts[index];
    uint32_t *ranks = ftk_manifest_ranks(m), first = 0;
    uint64_t sum = 0;
    int fd = -1;
    int rc = ranks ? open_set(dir, m->context, m->set, &fd)
                   : ftk_fail(FTKIT_ERR_NOMEM, "ranks of a part");
    part_name(p->part, name);
    for (uint32_t i = 0; i < index; i++)
        first += m->parts[i].nranks;
    if (rc == FTKIT_OK)
        rc = ftk_file_open(fd, m->set, name, &s.file, &s.bytes);
    if (rc == FTKIT_OK) {
        rc = visit_ranks(&s, m, ranks + first, p->nranks, fn, arg, &sum);
        ftk_file_close(&s.file);
    }
    if (fd >= 0)
        close(fd);
    free(ranks);
    if (rc == FTKIT_OK && found) {
        found->file_bytes = s.bytes;
        found->heads_xxh = sum;
    } else if (rc == FTKIT_OK && sum != p->heads_xxh) {
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "%s: not that of the manifest", s.file.what);
    }
    return rc;
}

static int compare_head(const struct source *s, const struct ftk_seg_header *head, void *arg)
{
    return head->head_xxh == ((const uint64_t *)arg)[head->rank]
               ? FTKIT_OK
               : ftk_fail(
                   FTKIT_ERR_CORRUPT, "%s: another segment of rank %u", s->file.what, head->rank);
}

static int learn(const char *dir, const uint64_t *heads, struct ftk_manifest *m)
{
    int rc = FTKIT_OK;
    for (uint32_t i = 0; rc == FTKIT_OK && i < m->nparts; i++)
        rc = visit(dir, m, i, compare_head, (void *)(uintptr_t)heads, &m->parts[i]);
    return rc;
}

/* Read the data behind a head into a segment, and check the segment. */
static int read_data(const struct source *s, const struct ftk_seg_header *head, void *seg)
{
    memcpy(seg, head, (size_t)head->head_bytes);
    int rc = read_at(s, ftk_seg_data(seg), head->data_bytes, s->at + head->head_bytes);
    return rc == FTKIT_OK ? ftk_seg_check_data(seg, s->file.what) : rc;
}

/* One rank of a part. */
struct one {
    uint32_t rank;
    ftk_room_fn *room; /* NULL: only the checksum of the head */
    void *arg;
    uint64_t *sum; /* becomes that checksum; or NULL */
};

static int take_one(const struct source *s, const struct ftk_seg_header *head, void *arg)
{
    struct one *o = arg;
    void *seg = NULL;
    if (head->rank != o->rank)
        return FTKIT_OK;
    if (o->sum)
        *o->sum = head->head_xxh;
    int rc = o->room ? o->room(o->arg, ftk_seg_bytes(head), &seg) : FTKIT_OK;
    return rc == FTKIT_OK && o->room ? read_data(s, head, seg) : rc;
}

static int read_segment(
    const char *dir, const struct ftk_manifest *m, int rank, ftk_room_fn *room, void *arg)
{
    struct one o = { (uint32_t)rank, room, arg, NULL };
    return visit(dir, m, m->part_of[rank], take_one, &o, NULL);
}

static int read_sum(const char *dir, const struct ftk_manifest *m, int rank, uint64_t *sum)
{
    struct one o = { (uint32_t)rank, NULL, NULL, sum };
    return visit(dir, m, m->part_of[rank], take_one, &o, NULL);
}

struct caller {
    ftk_head_fn *fn;
    void *arg;
    const struct ftk_manifest_part *part;
};

static int pass_head(const struct source *s, const struct ftk_seg_header *head, void *arg)
{
    const struct caller *c = arg;
    (void)s;
    return c->fn(head, c->part, c->arg);
}

static int each_head(
    const char *dir, const struct ftk_manifest *m, uint32_t index, ftk_head_fn *fn, void *arg)
{
    struct caller c = { fn, arg, &m->parts[index] };
    return visit(dir, m, index, pass_head, &c, NULL);
}

/* arg: the rank that was visited last. */
static int verify_data(const struct source *s, const struct ftk_seg_header *head, void *arg)
{
    void *seg = malloc(ftk_seg_bytes(head));
    *(int64_t *)arg = head->rank;
    int rc = seg ? read_data(s, head, seg) : ftk_fail(FTKIT_ERR_NOMEM, "%s", s->file.what);
    free(seg);
    return rc;
}

/* Ends at the first damage of a part. */
static int verify(
    const char *dir, const struct ftk_manifest *m, uint32_t index, ftk_finding_fn *tell, void *arg)
{
    struct ftk_finding f = { .rank = -1, .block = -1 };
    f.code = visit(dir, m, index, verify_data, &f.rank, NULL);
    if (f.code == FTKIT_OK)
        return FTKIT_OK;
    part_name(m->parts[index].part, f.file);
    snprintf(f.text, sizeof f.text, "%s", ftk_detail_text());
    tell(&f, arg);
    return f.code;
}

extern const struct ftk_level_ops ftk_level_plain;
const struct ftk_level_ops ftk_level_plain = { .word = WORD,
    .check = check,
    .make = make,
    .marked = marked,
    .write = write_part,
    .look = look,
    .learn = learn,
    .commit = commit,
    .drop = drop,
    .open = open_manifest,
    .examine = examine,
    .remove = remove_set,
    .read = read_segment,
    .sum = read_sum,
    .heads = each_head,
    .part_name = part_name,
    .verify = verify };

/* Determinants in shared memory of the node: the files of this process and of its neighbours.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "det_inside.h"

#define FIRST_BYTES (64u << 10)

struct ftk_det_files ftk_det_files;

static uint64_t epoch; /* the epoch id, as this process knows it */

/* `ftkit run` names the files of its jobs by a number, so that it finds the files that a job has
 * left. */
void ftk_det_name_of_job(uint64_t job, char *out, size_t bytes)
{
    const char *run = getenv("FTKIT_RUN_ID");
    snprintf(out, bytes, "ftkit-det-%.16s-%llx-", run ? run : "0", (unsigned long long)job);
}

/* Every process has its own files, so that no process destroys determinants that others need. */
void ftk_det_name_of(int rank, long pid, uint64_t line, char *out, size_t bytes)
{
    char job[64];
    ftk_det_name_of_job(ftk_log.ctx->job, job, sizeof job);
    snprintf(out, bytes, "/%s%d-%ld-%d", job, rank, pid, (int)(line & 1));
}

/* ---- the files of this process ------------------------------------------------------------ */

static int no_file(const struct ftk_det_file *f, size_t bytes, int err)
{
    return ftk_fail_errno(err,
        "the message log needs %zu bytes of /dev/shm for determinants (make /dev/shm larger, "
        "shorten checkpoint.period, or set log.determinants = refuse or relaxed): /dev/shm%s",
        bytes, f->name);
}

static int map(struct ftk_det_file *f, size_t bytes)
{
    void *p = f->head ? mremap(f->head, f->bytes, bytes, MREMAP_MAYMOVE)
                      : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (p == MAP_FAILED)
        return no_file(f, bytes, errno);
    f->head = p;
    f->bytes = bytes;
    return FTKIT_OK;
}

/* Touching a page of a full shared memory is a SIGBUS: allocate the pages first. */
int ftk_det_grow(struct ftk_det_file *f, size_t n)
{
    size_t want = sizeof(struct ftk_det_head) + n * sizeof(struct ftk_det);
    size_t had = f->head ? f->bytes : 0, bytes = had ? had : FIRST_BYTES;
    while (bytes < want)
        bytes *= 2;
    int err = posix_fallocate(f->fd, (off_t)had, (off_t)(bytes - had));
    if (err != 0)
        return no_file(f, bytes, err);
    return map(f, bytes);
}

static int open_file(struct ftk_det_file *f, uint64_t line, const struct ftk_det *before, size_t n,
    uint64_t epoch_id)
{
    ftk_det_name_of(ftk_log.me, (long)getpid(), line, f->name, sizeof f->name);
    (void)shm_unlink(f->name); /* of an earlier process with the same number */
    f->fd = shm_open(f->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return no_file(f, FIRST_BYTES, errno);
    int rc = ftk_det_reserve(f, n);
    if (rc != FTKIT_OK)
        return rc;
    if (n > 0)
        memcpy(f->head + 1, before, n * sizeof *before);
    f->head->lines = line;
    f->head->next = epoch_id;
    atomic_store_explicit(&f->head->n, n, memory_order_release);
    f->head->magic = FTK_DET_MAGIC;
    return FTKIT_OK;
}

int ftk_det_open_files(const struct ftk_det *before, size_t n, uint64_t line, uint64_t epoch_id)
{
    ftk_det_files.file[0].fd = ftk_det_files.file[1].fd = -1;
    ftk_det_files.now = &ftk_det_files.file[line & 1];
    int rc = open_file(ftk_det_files.now, line, before, n, epoch_id);
    if (rc == FTKIT_OK) /* the other file: of a line that no rank asks for */
        rc = open_file(&ftk_det_files.file[~line & 1], line + 1, NULL, 0, epoch_id);
    return rc;
}

void ftk_det_promise(uint64_t epoch_id)
{
    for (int i = 0; ftk_det_files.now && i < 2; i++)
        ftk_det_files.file[i].head->next = epoch_id;
}

void ftk_det_installed(uint64_t epoch_id)
{
    for (int i = 0; ftk_det_files.now && i < 2; i++)
        atomic_store_explicit(
            &ftk_det_files.file[i].head->epoch_id, epoch_id, memory_order_release);
    epoch = epoch_id;
}

void ftk_det_close_files(void)
{
    for (int i = 0; i < 2 && ftk_det_files.now; i++) {
        struct ftk_det_file *f = &ftk_det_files.file[i];
        if (f->head)
            (void)munmap(f->head, f->bytes);
        if (f->fd >= 0)
            (void)close(f->fd);
        if (f->fd >= 0)
            (void)shm_unlink(f->name);
    }
    memset(&ftk_det_files, 0, sizeof ftk_det_files);
}

/* In this order: a reader in between finds a line that no rank asks for. */
void ftk_det_begin_file(struct ftk_det_file *f, uint64_t line)
{
    atomic_store_explicit(&f->head->n, 0, memory_order_release);
    atomic_store_explicit(&f->head->stable, 0, memory_order_release);
    f->head->lines = line;
}

const struct ftk_det *ftk_det_own(uint64_t line, size_t *n)
{
    const struct ftk_det_file *f = &ftk_det_files.file[line & 1];
    bool mine = ftk_det_files.now && f->head->lines == line;
    *n = mine ? (size_t)atomic_load_explicit(&f->head->n, memory_order_relaxed) : 0;
    return mine ? (const struct ftk_det *)(const void *)(f->head + 1) : NULL;
}

void ftk_det_clean(uint64_t job)
{
    char begin[64], name[300];
    struct dirent *e;
    DIR *dir = opendir("/dev/shm");
    ftk_det_name_of_job(job, begin, sizeof begin);
    while (dir && (e = readdir(dir)) != NULL) {
        if (strncmp(e->d_name, begin, strlen(begin)) != 0)
            continue;
        snprintf(name, sizeof name, "/%s", e->d_name);
        (void)shm_unlink(name); /* another process may have removed it */
    }
    if (dir)
        (void)closedir(dir);
    epoch = 0;
}

/* ---- determinants of this node's ranks ----------------------------------------------- */

#define STABLE_BITS 48

static struct peer {
    int rank;
    long id;
    struct {
        struct ftk_det_head *head; /* NULL: not mapped */
        size_t bytes;
    } file[2];
} * peers;
static int npeers;

static void forget_peers(void)
{
    for (int i = 0; i < 2 * npeers; i++)
        if (peers[i / 2].file[i % 2].head)
            (void)munmap(peers[i / 2].file[i % 2].head, peers[i / 2].file[i % 2].bytes);
    free(peers);
    peers = NULL;
    npeers = 0;
}

int ftk_det_peers(const int *rank, const long *id, int n)
{
    forget_peers();
    if (n == 0)
        return FTKIT_OK;
    peers = calloc((size_t)n, sizeof *peers);
    if (!peers)
        return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
    npeers = n;
    for (int i = 0; i < n; i++)
        peers[i] = (struct peer){ .rank = rank[i], .id = id[rank[i]] };
    return FTKIT_OK;
}

/* The peer's file of that parity; NULL: there is none, the peer has left the job. */
static struct ftk_det_head *map_peer(struct peer *p, int i)
{
    char name[112];
    struct stat st;
    void *at = MAP_FAILED;
    if (p->file[i].head)
        return p->file[i].head;
    ftk_det_name_of(p->rank, p->id, (uint64_t)i, name, sizeof name);
    int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (fd >= 0 && ftk_access_own_file(fd) == 0 && fstat(fd, &st) == 0
        && (size_t)st.st_size >= sizeof(struct ftk_det_head))
        at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd); /* the mapping holds the file */
    if (at == MAP_FAILED)
        return NULL;
    p->file[i].head = at;
    p->file[i].bytes = (size_t)st.st_size;
    return at;
}

/* The peer's file of this process's interval between lines. */
static struct ftk_det_head *head_of(int peer)
{
    struct ftk_det_head *h = map_peer(&peers[peer], (int)(ftk_log.line.count & 1));
    /* a peer that has not begun this epoch may still have to drop its determinants */
    return h && atomic_load_explicit(&h->epoch_id, memory_order_acquire) == epoch
                   && h->lines == ftk_log.line.count
               ? h
               : NULL;
}

const struct ftk_det *ftk_det_of(int peer, size_t *n)
{
    int i = (int)(ftk_log.line.count & 1);
    struct ftk_det_head *h = head_of(peer);
    *n = h ? (size_t)atomic_load_explicit(&h->n, memory_order_acquire) : 0;
    size_t had = peers[peer].file[i].bytes, bytes = had;
    while (h && bytes < sizeof *h + *n * sizeof(struct ftk_det))
        bytes *= 2; /* as the owner enlarges the file */
    if (h && bytes != had) {
        void *at = mremap(h, had, bytes, MREMAP_MAYMOVE);
        if (at == MAP_FAILED) {
            *n = (had - sizeof *h) / sizeof(struct ftk_det);
            ftk_report(FTKIT_ERROR,
                "context %s: rank %d: determinants of rank %d cannot be mapped: "
                "the loss of this node cannot be repaired by its team alone",
                ftk_log.ctx->cfg.name, ftk_log.me, peers[peer].rank);
            at = h;
            bytes = had;
        }
        h = peers[peer].file[i].head = at;
        peers[peer].file[i].bytes = bytes;
    }
    return h ? (const struct ftk_det *)(const void *)(h + 1) : NULL;
}

/* The count is valid in the epoch in which it was set. */
static uint64_t stable_epoch(void)
{
    return epoch << STABLE_BITS;
}

size_t ftk_det_stable(int peer)
{
    struct ftk_det_head *h = head_of(peer);
    uint64_t word = h ? atomic_load_explicit(&h->stable, memory_order_acquire) : 0;
    return (word ^ stable_epoch()) >> STABLE_BITS ? 0 : word & (((uint64_t)1 << STABLE_BITS) - 1);
}

void ftk_det_set_stable(int peer, size_t n)
{
    struct ftk_det_head *h = head_of(peer);
    if (h && ftk_det_stable(peer) < n) /* after a lost race determinants are sent again */
        atomic_store_explicit(&h->stable, stable_epoch() | n, memory_order_release);
}

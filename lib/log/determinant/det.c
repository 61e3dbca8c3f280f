/* Determinants in shared memory of the node (see det.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detect/sure.h"
#include "log/det.h"
#include "log/mode.h"
#include "log/part.h"
#include "log/set_up.h"

#define MAGIC 0x746564666b746631u
#define FIRST_BYTES (64u << 10)

/* The file: this head, then the determinants in the order of the events. */
struct head {
    uint64_t magic;
    uint64_t lines;            /* committed before the determinants */
    _Atomic uint64_t epoch_id; /* epoch to which the determinants belong */
    uint64_t next;             /* epoch to which they will belong, if the ranks agree */
    _Atomic uint64_t n;        /* complete determinants */
    _Atomic uint64_t stable;   /* how many are stable, below 16 bits of the epoch id */
    uint64_t pad[2];
};

/* One file for each of the last two intervals between lines: a process that alone knows that a line
 * is committed may die, and then all ranks roll back to the line before. */
struct file {
    struct head *head; /* NULL: not open */
    size_t bytes;
    int fd;
    char name[112];
};

static struct {
    struct file file[2], *now; /* by the parity of the line; now: NULL when not open */
    /* in a replay */
    size_t at;          /* next probe or test */
    uint32_t wildcards; /* wildcard receives begun */
    uint32_t nothings;  /* probes and tests in a row that found nothing */
    size_t plan;        /* determinants that the replay has to repeat */
    uint32_t *receive;  /* [nreceive] index + 1 of the determinant of wildcard receive i + 1 */
    size_t nreceive;
    uint32_t receives; /* begun */
    size_t ncancel;    /* determinants CANCEL, by the numbers of their receives */
    struct ftk_det *cancel;
    size_t at_cancel; /* the first one whose receive has not begun again */
    bool hold;
    struct ftk_det *copy; /* what ftk_det_next() has returned last */
} det_state;

/* The line of a set that is being written: see ftk_det_at_line().  Receives that were begun before
 * the line and are not in the lists were complete. */
static struct {
    size_t n; /* determinants before the line */
    uint32_t *wildcard, *receive;
    size_t nwildcards, nreceives;
    uint32_t wildcards, receives; /* begun before the line */
    /* of a line apart */
    size_t stop; /* determinants before ftk_det_stop(); SIZE_MAX: not yet */
    enum { ONE_FILE, SINCE_CUT, SINCE_COMMIT } files; /* see append_det() */
} at_line;

static uint64_t epoch; /* the epoch id, as this process knows it */

static struct ftk_det *list(void)
{
    return (struct ftk_det *)(void *)(det_state.now->head + 1);
}

static size_t count_of(const struct file *f)
{
    return (size_t)atomic_load_explicit(&f->head->n, memory_order_relaxed);
}

static size_t count(void)
{
    return det_state.now ? count_of(det_state.now) : 0;
}

/* `ftkit run` names the files of its jobs by a number, so that it finds the files that a job has
 * left. */
static void name_of_job(uint64_t job, char *out, size_t bytes)
{
    const char *run = getenv("FTKIT_RUN_ID");
    snprintf(out, bytes, "ftkit-det-%.16s-%llx-", run ? run : "0", (unsigned long long)job);
}

/* Every process has its own files, so that no process destroys determinants that others need. */
static void name_of(int rank, long pid, uint64_t line, char *out, size_t bytes)
{
    char job[64];
    name_of_job(ftk_log.ctx->job, job, sizeof job);
    snprintf(out, bytes, "/%s%d-%ld-%d", job, rank, pid, (int)(line & 1));
}

/* ---- the file ------------------------------------------------------------------------ */

static int no_file(const struct file *f, size_t bytes, int err)
{
    return ftk_fail_errno(err,
        "the message log needs %zu bytes of /dev/shm for determinants (make /dev/shm larger, "
        "shorten checkpoint.period, or set log.determinants = refuse or relaxed): /dev/shm%s",
        bytes, f->name);
}

static int map(struct file *f, size_t bytes)
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
static int reserve(struct file *f, size_t n)
{
    size_t want = sizeof(struct head) + n * sizeof(struct ftk_det);
    size_t had = f->head ? f->bytes : 0, bytes = had ? had : FIRST_BYTES;
    while (bytes < want)
        bytes *= 2;
    if (bytes == had)
        return FTKIT_OK;
    int err = posix_fallocate(f->fd, (off_t)had, (off_t)(bytes - had));
    if (err != 0)
        return no_file(f, bytes, err);
    return map(f, bytes);
}

static int open_file(
    struct file *f, uint64_t line, const struct ftk_det *before, size_t n, uint64_t epoch_id)
{
    name_of(ftk_log.me, (long)getpid(), line, f->name, sizeof f->name);
    (void)shm_unlink(f->name); /* of an earlier process with the same number */
    f->fd = shm_open(f->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return no_file(f, FIRST_BYTES, errno);
    int rc = reserve(f, n);
    if (rc != FTKIT_OK)
        return rc;
    if (n > 0)
        memcpy(f->head + 1, before, n * sizeof *before);
    f->head->lines = line;
    f->head->next = epoch_id;
    atomic_store_explicit(&f->head->n, n, memory_order_release);
    f->head->magic = MAGIC;
    return FTKIT_OK;
}

/* Count the determinants of one call at once.  A process that dies before that has reported no
 * outcome of the call. */
static size_t whole(const struct ftk_det *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ftk_det_has_more(v[i].kind) && (size_t)v[i].a >= n - i)
            return i;
    return n;
}

int ftk_det_open(const struct ftk_det *before, size_t n, uint64_t line, uint64_t epoch_id)
{
    n = whole(before, n);
    ftk_det_close(); /* the files of an earlier attempt */
    det_state.file[0].fd = det_state.file[1].fd = -1;
    det_state.now = &det_state.file[line & 1];
    int rc = open_file(det_state.now, line, before, n, epoch_id);
    if (rc == FTKIT_OK) /* the other file: of a line that no rank asks for */
        rc = open_file(&det_state.file[~line & 1], line + 1, NULL, 0, epoch_id);
    if (rc != FTKIT_OK)
        ftk_det_close();
    return rc;
}

void ftk_det_promise(uint64_t epoch_id)
{
    for (int i = 0; det_state.now && i < 2; i++)
        det_state.file[i].head->next = epoch_id;
}

void ftk_det_installed(uint64_t epoch_id)
{
    for (int i = 0; det_state.now && i < 2; i++)
        atomic_store_explicit(&det_state.file[i].head->epoch_id, epoch_id, memory_order_release);
    epoch = epoch_id;
}

void ftk_det_close(void)
{
    for (int i = 0; i < 2 && det_state.now; i++) {
        struct file *f = &det_state.file[i];
        if (f->head)
            (void)munmap(f->head, f->bytes);
        if (f->fd >= 0)
            (void)close(f->fd);
        if (f->fd >= 0)
            (void)shm_unlink(f->name);
    }
    free(det_state.receive);
    free(det_state.cancel);
    free(det_state.copy);
    memset(&det_state, 0, sizeof det_state);
    free(at_line.wildcard);
    free(at_line.receive);
    memset(&at_line, 0, sizeof at_line);
}

static int go_back(void);

static void begin_again(void)
{
    det_state.at = det_state.plan = det_state.nreceive = 0;
    det_state.wildcards = det_state.nothings = 0;
    det_state.ncancel = det_state.at_cancel = 0;
    det_state.receives = 0;
    free(det_state.receive);
    free(det_state.cancel);
    det_state.receive = NULL;
    det_state.cancel = NULL;
}

/* ---- the line ------------------------------------------------------------------------ */

/* The file that `now` is not. */
static struct file *other_file(void)
{
    return det_state.now == &det_state.file[0] ? &det_state.file[1] : &det_state.file[0];
}

/* In this order: a reader in between finds a line that no rank asks for. */
static void begin_file(struct file *f, uint64_t line)
{
    atomic_store_explicit(&f->head->n, 0, memory_order_release);
    atomic_store_explicit(&f->head->stable, 0, memory_order_release);
    f->head->lines = line;
}

static void append_det(struct ftk_det det);
static const struct ftk_det *upcoming(void);

static uint32_t *copy_numbers(const uint32_t *v, size_t n)
{
    uint32_t *c = malloc((n + 1) * sizeof *c);
    if (c && n > 0)
        memcpy(c, v, n * sizeof *c);
    return c;
}

int ftk_det_at_line(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr)
{
    free(at_line.wildcard);
    free(at_line.receive);
    at_line.files = ONE_FILE;
    at_line.stop = SIZE_MAX;
    at_line.wildcards = det_state.wildcards;
    at_line.receives = det_state.receives;
    at_line.n = count();
    at_line.nwildcards = nw;
    at_line.nreceives = nr;
    at_line.wildcard = copy_numbers(wildcards, nw);
    at_line.receive = copy_numbers(receives, nr);
    if (at_line.wildcard && at_line.receive)
        return FTKIT_OK;
    at_line.nwildcards = at_line.nreceives = 0;
    return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
}

int ftk_det_cut(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr)
{
    ftk_det_before_send(); /* failed probes and tests before the cut count no more */
    int rc = ftk_det_at_line(wildcards, nw, receives, nr);
    if (rc != FTKIT_OK || !det_state.now)
        return rc;
    /* no rank asks for the interval before the last line: all know that line */
    begin_file(other_file(), ftk_log.line.count + 1);
    at_line.files = SINCE_CUT;
    return rc;
}

static void withdraw(void)
{
    at_line.files = ONE_FILE;
}

void ftk_det_stop(void)
{
    if (at_line.stop == SIZE_MAX)
        at_line.stop = count();
}

bool ftk_det_is_past_stop(void)
{
    return at_line.stop != SIZE_MAX && (count() > at_line.stop || det_state.nothings > 0);
}

/* Pass each NONE whose failed calls the replay has made: a message of this rank followed them, and
 * follows now, too. */
static void pass_nothings(void)
{
    const struct ftk_det *n;
    while ((n = upcoming()) && n->kind == FTK_DET_NONE && det_state.nothings >= n->n) {
        det_state.nothings = 0;
        det_state.at++;
    }
}

bool ftk_det_plan_left(void)
{
    pass_nothings();
    return det_state.plan > 0
           && (upcoming() || det_state.wildcards < det_state.nreceive
               || (det_state.at_cancel < det_state.ncancel
                   && det_state.cancel[det_state.at_cancel].n > det_state.receives));
}

static uint32_t new_number(const uint32_t *v, size_t n, uint32_t before, uint32_t number)
{
    if (number > before)
        return (uint32_t)n + number - before;
    for (size_t i = 0; i < n; i++)
        if (v[i] == number)
            return (uint32_t)i + 1;
    return 0;
}

static uint32_t old_number(const uint32_t *v, size_t n, uint32_t before, uint32_t number)
{
    return number > n ? before + number - (uint32_t)n : number > 0 ? v[number - 1] : 0;
}

uint32_t ftk_det_new_wildcard(uint32_t number)
{
    return new_number(at_line.wildcard, at_line.nwildcards, at_line.wildcards, number);
}

uint32_t ftk_det_new_receive(uint32_t number)
{
    return new_number(at_line.receive, at_line.nreceives, at_line.receives, number);
}

/* A determinant with the numbers that it has in the interval before the line, or after it. */
static struct ftk_det of_before(struct ftk_det det)
{
    if (det.kind == FTK_DET_RECV)
        det.n = old_number(at_line.wildcard, at_line.nwildcards, at_line.wildcards, det.n);
    else if (det.kind == FTK_DET_CANCEL)
        det.n = old_number(at_line.receive, at_line.nreceives, at_line.receives, det.n);
    return det;
}

static struct ftk_det of_after(struct ftk_det det)
{
    if (det.kind == FTK_DET_RECV)
        det.n = ftk_det_new_wildcard(det.n);
    else if (det.kind == FTK_DET_CANCEL)
        det.n = ftk_det_new_receive(det.n);
    return det;
}

/* The determinants since the line, up to number upto, with their new numbers; *n of them, of the
 * caller.  There are some when the line is apart, or when this rank has not seen the commit: the
 * repair has completed receives meanwhile. */
static struct ftk_det *since_line(size_t upto, size_t *n)
{
    *n = upto > at_line.n ? upto - at_line.n : 0;
    struct ftk_det *v = *n > 0 ? malloc(*n * sizeof *v) : NULL;
    if (*n > 0 && !v)
        ftk_report(FTKIT_ERROR, "context %s: rank %d: no memory for determinants",
            ftk_log.ctx->cfg.name, ftk_log.me);
    *n = v ? *n : 0;
    for (size_t i = 0; i < *n; i++)
        v[i] = of_after(list()[at_line.n + i]);
    return v;
}

struct ftk_det *ftk_det_window(size_t *n)
{
    struct ftk_det *v = since_line(at_line.stop < count() ? at_line.stop : count(), n);
    return v ? v : malloc(sizeof *v);
}

int ftk_det_restore(const struct ftk_det *v, size_t n)
{
    n = whole(v, n);
    const size_t has = count();
    if (!det_state.now || has >= n)
        return FTKIT_OK;
    int rc = reserve(det_state.now, n);
    for (size_t i = has; rc == FTKIT_OK && i < n; i++)
        append_det(v[i]);
    return rc == FTKIT_OK ? go_back() : rc;
}

static void begin_interval(void)
{
    const bool both =
        at_line.files == SINCE_CUT; /* the file of the interval has all since the cut */
    size_t n = 0;
    struct ftk_det *v = both ? NULL : since_line(count(), &n);
    const uint32_t wildcards = det_state.wildcards - at_line.wildcards;
    const uint32_t receives = det_state.receives - at_line.receives;
    const uint32_t nothings = ftk_log.apart.open ? det_state.nothings : 0;
    begin_again();
    det_state.wildcards = (uint32_t)at_line.nwildcards + wildcards;
    det_state.receives = (uint32_t)at_line.nreceives + receives;
    det_state.nothings = nothings;
    if (det_state.now) {
        det_state.now = &det_state.file[ftk_log.line.count & 1];
        if (!both)
            begin_file(det_state.now, ftk_log.line.count);
    }
    for (size_t i = 0; i < n; i++)
        append_det(v[i]);
    free(v);
    at_line.files = both ? SINCE_COMMIT : ONE_FILE;
}

void ftk_det_drop(void)
{
    begin_again();
    at_line.files = ONE_FILE;
    for (int i = 0; det_state.now && i < 2; i++)
        atomic_store_explicit(&det_state.file[i].head->n, 0, memory_order_release);
}

void ftk_det_hold(bool on)
{
    det_state.hold = on;
}

size_t ftk_det_count(void)
{
    return count();
}

/* Append to a file of this process. */
static int append_to(struct file *f, struct ftk_det det)
{
    const size_t n = count_of(f);
    int rc = reserve(f, n + 1);
    if (rc != FTKIT_OK)
        return rc;
    ((struct ftk_det *)(void *)(f->head + 1))[n] = det;
    atomic_store_explicit(&f->head->n, n + 1, memory_order_release);
    return rc;
}

/* Line apart: from the cut on determinants go to the files of both intervals, each with the numbers
 * that it has there.  So a repair finds them, whether the line of the cut is committed or not, and
 * whether this process knows that or not.  After the commit the interval before the line may count,
 * too, until all ranks know the commit: this process may be the only one that does. */
static void append_det(struct ftk_det det)
{
    if (!det_state.now || det_state.hold)
        return;
    int rc = FTKIT_OK;
    if (at_line.files != ONE_FILE)
        rc = append_to(other_file(), at_line.files == SINCE_CUT ? of_after(det) : of_before(det));
    const int now = append_to(det_state.now, det); /* also when the other file is full */
    if (rc != FTKIT_OK || now != FTKIT_OK)
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d: %s: after a failure now the program may "
            "not take the same course again",
            ftk_log.ctx->cfg.name, ftk_log.me, ftk_detail_text());
}

static void recorded(void)
{
    if (ftk_log.mode->recorded)
        ftk_log.mode->recorded();
}

/* ---- replay -------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const struct ftk_det *x = a, *y = b;
    return (x->n > y->n) - (x->n < y->n);
}

/* Find the determinant of each receive. */
static int sort_out(void)
{
    for (size_t i = 0; i < det_state.plan; i++) {
        const struct ftk_det *det = &list()[i];
        if (det->kind == FTK_DET_RECV && det->n > det_state.nreceive)
            det_state.nreceive = det->n;
        det_state.ncancel += det->kind == FTK_DET_CANCEL;
    }
    det_state.receive = calloc(det_state.nreceive + 1, sizeof *det_state.receive);
    det_state.cancel = calloc(det_state.ncancel + 1, sizeof *det_state.cancel);
    if (!det_state.receive || !det_state.cancel)
        return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
    for (size_t i = 0, c = 0; i < det_state.plan; i++) {
        const struct ftk_det *det = &list()[i];
        if (det->kind == FTK_DET_RECV && det->n > 0)
            det_state.receive[det->n - 1] = (uint32_t)i + 1;
        if (det->kind == FTK_DET_CANCEL)
            det_state.cancel[c++] = *det;
    }
    qsort(det_state.cancel, det_state.ncancel, sizeof *det_state.cancel, by_number);
    return FTKIT_OK;
}

/* This process rolls back to the line, and repeats the determinants. */
static int go_back(void)
{
    begin_again();
    at_line.files = ONE_FILE;
    det_state.plan = count();
    return det_state.plan > 0 ? sort_out() : FTKIT_OK;
}

/* A process that is before the line repeats and records nothing. */
static bool counts(void)
{
    return !ftk_log_is_rolling_back() && !ftk_log_replays_setup() && ftk_log.mode->records;
}

/* ---- following the leader (mode/lead.c) ------------------------------------------ */

/* Whether the outcome of the next probe, test or wait is known.  A follower waits for it. */
static bool await_next(void)
{
    unsigned turns = 0;
    for (;;) {
        pass_nothings();
        if (upcoming())
            return true;
        if (!ftk_mode_await(&turns))
            return false;
    }
}

enum ftk_cancel_known ftk_det_await_cancel(uint32_t number)
{
    unsigned turns = 0;
    while (counts() && number > 0) {
        for (size_t i = 0; i < det_state.ncancel; i++)
            if (det_state.cancel[i].n == number)
                return det_state.cancel[i].a != 0 ? FTK_CANCEL_DONE : FTK_CANCEL_TOO_LATE;
        if (!ftk_mode_await(&turns))
            break;
    }
    return FTK_CANCEL_UNKNOWN;
}

/* Add a determinant of the list to the plan. */
static bool add_to_plan(size_t i)
{
    const struct ftk_det det = list()[i];
    if (det.kind == FTK_DET_RECV && det.n > det_state.nreceive) {
        uint32_t *all = realloc(det_state.receive, (det.n + 1) * sizeof *all);
        if (!all)
            return false;
        memset(all + det_state.nreceive, 0, (det.n - det_state.nreceive) * sizeof *all);
        det_state.receive = all;
        det_state.nreceive = det.n;
    }
    if (det.kind == FTK_DET_RECV && det.n > 0)
        det_state.receive[det.n - 1] = (uint32_t)i + 1;
    if (det.kind == FTK_DET_CANCEL) {
        struct ftk_det *all = realloc(det_state.cancel, (det_state.ncancel + 1) * sizeof *all);
        if (!all)
            return false;
        det_state.cancel = all;
        det_state.cancel[det_state.ncancel++] = det;
        qsort(det_state.cancel, det_state.ncancel, sizeof *det_state.cancel, by_number);
    }
    det_state.plan = i + 1;
    return true;
}

/* A determinant that this rank has recorded by itself, behind its plan: its call is over. */
static void pass_own(size_t i)
{
    det_state.plan = i + 1;
    det_state.at = det_state.at > i ? det_state.at : i + 1;
}

bool ftk_det_learn(const struct ftk_det *v, size_t from, size_t n)
{
    if (!det_state.now || from > count())
        return false;
    const size_t own = count();
    for (size_t i = from; i < from + n; i++) {
        if (i < own && memcmp(&list()[i], &v[i - from], sizeof *v) != 0)
            return false;
        if (i < own && i >= det_state.plan)
            pass_own(i);
        if (i < own)
            continue;
        append_det(v[i - from]);
        if (count() != i + 1 || !add_to_plan(i))
            return false; /* the file is full, or there is no memory */
    }
    return true;
}

size_t ftk_det_whole(const struct ftk_det *v, size_t n)
{
    return whole(v, n);
}

uint32_t ftk_det_receive(int *source, int *tag)
{
    if (!counts())
        return 0;
    uint32_t number = ++det_state.wildcards;
    return ftk_det_match(number, source, tag) ? 0 : number;
}

bool ftk_det_match(uint32_t number, int *source, int *tag)
{
    if (number > det_state.nreceive || !det_state.receive[number - 1])
        return false;
    const struct ftk_det *det = &list()[det_state.receive[number - 1] - 1];
    *source = det->a;
    *tag = det->b;
    return true;
}

void ftk_det_received(uint32_t number, int source, int tag)
{
    append_det((struct ftk_det){ FTK_DET_RECV, number, source, tag });
    recorded();
}

uint32_t ftk_det_begun(enum ftk_cancel_known *cancel)
{
    *cancel = FTK_CANCEL_UNKNOWN;
    if (!counts())
        return 0;
    uint32_t number = ++det_state.receives;
    while (
        det_state.at_cancel < det_state.ncancel && det_state.cancel[det_state.at_cancel].n < number)
        det_state.at_cancel++;
    if (det_state.at_cancel < det_state.ncancel
        && det_state.cancel[det_state.at_cancel].n == number)
        *cancel =
            det_state.cancel[det_state.at_cancel].a != 0 ? FTK_CANCEL_DONE : FTK_CANCEL_TOO_LATE;
    return number;
}

void ftk_det_cancelled(uint32_t number, bool cancelled)
{
    if (!counts() || number == 0)
        return;
    append_det((struct ftk_det){ FTK_DET_CANCEL, number, cancelled, 0 });
    recorded();
}

static bool of_receive(uint32_t kind)
{
    return kind == FTK_DET_RECV || kind == FTK_DET_CANCEL;
}

/* The next determinant of a probe, a test or a wait. */
static const struct ftk_det *upcoming(void)
{
    while (det_state.at < det_state.plan && of_receive(list()[det_state.at].kind))
        det_state.at++;
    return det_state.at < det_state.plan ? &list()[det_state.at] : NULL;
}

/* A copy of a determinant and its MORE: the list may move before the caller has read them. */
static const struct ftk_det *copy_of(const struct ftk_det *det)
{
    const size_t n = 1 + (size_t)(ftk_det_has_more(det->kind) ? det->a : 0);
    struct ftk_det *copy = realloc(det_state.copy, n * sizeof *copy);
    if (!copy)
        return det;
    det_state.copy = copy;
    memcpy(copy, det, n * sizeof *copy);
    return copy;
}

/* ftk_det_next() by the list of determinants. */
static int next_of_list(uint32_t kind, const struct ftk_det **det)
{
    if (!counts() || (det_state.plan == 0 && !ftk_log.mode->follows))
        return FTK_DET_FREE;
    if (!await_next())
        return FTK_DET_FREE;
    *det = upcoming();
    if (det_state.nothings < (*det)->n) {
        det_state.nothings++;
        return FTK_DET_NOTHING;
    }
    if ((*det)->kind != kind) {
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d does not take the same course as before the failure: its "
            "next probe, test, MPI_Waitany, MPI_Waitsome or ftkit_decide is of another kind than "
            "the recorded call%s",
            ftk_log.ctx->cfg.name, ftk_log.me,
            ftk_log.in_set_up ? " (in set-up, from ftkit_open to ftkit_recover)" : "");
        ftk_log.stats.differs++;
        det_state.plan = det_state.at;
        return FTK_DET_FREE;
    }
    det_state.at += 1 + (size_t)(ftk_det_has_more((*det)->kind) ? (*det)->a : 0);
    det_state.nothings = 0;
    *det = copy_of(*det);
    return FTK_DET_THIS;
}

int ftk_det_next(uint32_t kind, const struct ftk_det **det)
{
    if (ftk_log_replays_setup())
        return ftk_set_up_next(kind, det);
    const int next = next_of_list(kind, det);
    if (kind == FTK_DET_VALUE || kind == FTK_DET_PROBE) /* kept by decide.c and by the probe */
        return next;
    if (next == FTK_DET_NOTHING)
        ftk_set_up_nothing();
    else if (next == FTK_DET_THIS)
        ftk_set_up_found(*det);
    return next;
}

void ftk_det_found(uint32_t kind, int a, int b)
{
    if (kind != FTK_DET_PROBE)
        ftk_set_up_outcome(kind, a);
    if (!counts())
        return;
    append_det((struct ftk_det){ kind, det_state.nothings, a, b });
    det_state.nothings = 0;
    recorded();
}

void ftk_det_more(int index)
{
    ftk_set_up_outcome(FTK_DET_MORE, index);
    if (!counts())
        return;
    append_det((struct ftk_det){ FTK_DET_MORE, 0, index, 0 });
    recorded();
}

int ftk_det_value(const void *data, size_t bytes)
{
    const char *from = data;
    const size_t n = (bytes + FTK_DET_BYTES - 1) / FTK_DET_BYTES;
    if (!counts() || !det_state.now || det_state.hold)
        return FTKIT_OK;
    int rc = reserve(det_state.now, count() + 1 + n);
    if (rc == FTKIT_OK && at_line.files != ONE_FILE)
        rc = reserve(other_file(), count_of(other_file()) + 1 + n);
    if (rc != FTKIT_OK)
        return ftk_fail(FTKIT_ERR_NOSPACE, "a decided value: %s", ftk_detail_text());
    append_det((struct ftk_det){ FTK_DET_VALUE, det_state.nothings, (int32_t)n, (int32_t)bytes });
    for (size_t at = 0; at < bytes; at += FTK_DET_BYTES) {
        struct ftk_det more = { .kind = FTK_DET_MORE };
        memcpy((char *)&more + offsetof(struct ftk_det, n), from + at,
            bytes - at < FTK_DET_BYTES ? bytes - at : FTK_DET_BYTES);
        append_det(more);
    }
    det_state.nothings = 0;
    recorded();
    return FTKIT_OK;
}

void ftk_det_found_nothing(void)
{
    ftk_set_up_nothing();
    if (counts())
        det_state.nothings++;
}

void ftk_det_before_send(void)
{
    if (!counts())
        return;
    pass_nothings();
    if (det_state.nothings == 0 || upcoming())
        return;
    append_det((struct ftk_det){ FTK_DET_NONE, det_state.nothings, 0, 0 });
    det_state.nothings = 0;
    recorded();
}

/* ---- determinants of this node's ranks ----------------------------------------------- */

#define STABLE_BITS 48

static struct peer {
    int rank;
    long id;
    struct {
        struct head *head; /* NULL: not mapped */
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
static struct head *map_peer(struct peer *p, int i)
{
    char name[112];
    struct stat st;
    void *at = MAP_FAILED;
    if (p->file[i].head)
        return p->file[i].head;
    name_of(p->rank, p->id, (uint64_t)i, name, sizeof name);
    int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (fd >= 0 && fstat(fd, &st) == 0)
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
static struct head *head_of(int peer)
{
    struct head *h = map_peer(&peers[peer], (int)(ftk_log.line.count & 1));
    /* a peer that has not begun this epoch may still have to drop its determinants */
    return h && atomic_load_explicit(&h->epoch_id, memory_order_acquire) == epoch
                   && h->lines == ftk_log.line.count
               ? h
               : NULL;
}

const struct ftk_det *ftk_det_of(int peer, size_t *n)
{
    int i = (int)(ftk_log.line.count & 1);
    struct head *h = head_of(peer);
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
    struct head *h = head_of(peer);
    uint64_t word = h ? atomic_load_explicit(&h->stable, memory_order_acquire) : 0;
    return (word ^ stable_epoch()) >> STABLE_BITS ? 0 : word & (((uint64_t)1 << STABLE_BITS) - 1);
}

void ftk_det_set_stable(int peer, size_t n)
{
    struct head *h = head_of(peer);
    if (h && ftk_det_stable(peer) < n) /* after a lost race determinants are sent again */
        atomic_store_explicit(&h->stable, stable_epoch() | n, memory_order_release);
}

const struct ftk_det *ftk_det_own(uint64_t line, size_t *n)
{
    const struct file *f = &det_state.file[line & 1];
    bool mine = det_state.now && f->head->lines == line;
    *n = mine ? (size_t)atomic_load_explicit(&f->head->n, memory_order_relaxed) : 0;
    return mine ? (const struct ftk_det *)(const void *)(f->head + 1) : NULL;
}

/* ---- determinants of lost ranks ------------------------------------------------------ */

static struct adopted {
    struct ftk_det *v[2];
    uint64_t n[2], lines[2];
    bool found;
} * adopted; /* [adopted_n] by rank */
static int adopted_n;

static void free_one(struct adopted *in)
{
    free(in->v[0]);
    free(in->v[1]);
    memset(in, 0, sizeof *in);
}

static void forget_search(void)
{
    for (int r = 0; r < adopted_n; r++)
        free_one(&adopted[r]);
    free(adopted);
    adopted = NULL;
    adopted_n = 0;
}

const struct ftk_det *ftk_det_adopted(int r, uint64_t line, size_t *n)
{
    *n = 0;
    for (int i = 0; r < adopted_n && i < 2; i++) {
        const struct adopted *in = &adopted[r];
        if (!in->found || in->lines[i] != line)
            continue;
        *n = (size_t)in->n[i];
        return in->v[i];
    }
    return NULL;
}

bool ftk_det_is_adopted(int r)
{
    return r < adopted_n && adopted[r].found;
}

void ftk_det_adopt(int r, uint64_t line, struct ftk_det *v, size_t n)
{
    struct adopted *in = &adopted[r];
    free_one(in);
    *in = (struct adopted){
        .v = { v, NULL }, .n = { n, 0 }, .lines = { line, line + 1 }, .found = true
    };
}

static bool is_of_now(const struct head *h)
{
    return h->magic == MAGIC
           && (h->epoch_id == ftk_log.epoch.id_now || h->next == ftk_log.epoch.id_now);
}

/* Read one file of a rank; its process is dead, so the file does not change. */
static bool read_file(int rank, const char *name, int i, struct adopted *in)
{
    /* a spare does not know ftk_log.n */
    const int plane = rank / (adopted_n / ftk_log.ctx->cfg.replicas);
    const unsigned back = ftk_log.epoch.all_rolled_back_now >> plane & 1;
    struct head h;
    struct stat st;
    bool good = false;
    int fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && is_of_now(&h) && fstat(fd, &st) == 0
        && h.n <= ((uint64_t)st.st_size - sizeof h) / sizeof(struct ftk_det)) {
        /* all ranks of its plane rolled back, and the process died before it dropped them */
        bool dropped = back && h.epoch_id != ftk_log.epoch.id_now;
        in->n[i] = dropped ? 0 : h.n;
        size_t bytes = (size_t)in->n[i] * sizeof(struct ftk_det);
        in->lines[i] = h.lines;
        in->v[i] = malloc(bytes + 1);
        good = in->v[i] && pread(fd, in->v[i], bytes, sizeof h) == (ssize_t)bytes;
    }
    (void)close(fd);
    return good;
}

/* Read the files of rank r on this node. */
static void look_for(int r, struct adopted *in)
{
    char job[64], begin[80], name[112];
    struct dirent *e;
    if (FTK_FAULT("log.blind"))
        return;
    DIR *dir = opendir("/dev/shm");
    name_of_job(ftk_log.ctx->job, job, sizeof job);
    snprintf(begin, sizeof begin, "%s%d-", job, r);
    size_t len = strlen(begin);
    while (dir && !in->found && (e = readdir(dir)) != NULL) {
        if (strncmp(e->d_name, begin, len) != 0)
            continue;
        long pid = strtol(e->d_name + len, NULL, 10);
        name_of(r, pid, 0, name, sizeof name);
        in->found = read_file(r, name, 0, in);
        name_of(r, pid, 1, name, sizeof name);
        in->found = in->found && read_file(r, name, 1, in);
        if (!in->found)
            free_one(in);
    }
    if (dir)
        (void)closedir(dir);
}

static int send_to_all(MPI_Comm s, bool root_is_me, int root, struct adopted *in)
{
    const struct ftk_sure all = { s, NULL, "determinants of the lost" };
    uint64_t word[4] = { in->n[0], in->n[1], in->lines[0], in->lines[1] };
    int rc = ftk_sure_bcast(&all, root, word, sizeof word);
    for (int i = 0; rc == FTKIT_OK && i < 2; i++) {
        size_t bytes = (size_t)word[i] * sizeof(struct ftk_det);
        if (!root_is_me) {
            free(in->v[i]);
            in->v[i] = malloc(bytes + 1);
            in->n[i] = word[i];
            in->lines[i] = word[2 + i];
            in->found = true;
        }
        rc = in->v[i] ? ftk_sure_bcast(&all, root, in->v[i], bytes)
                      : ftk_fail(FTKIT_ERR_NOMEM, "determinants of the lost");
    }
    return rc;
}

/* The job is over: remove the files that dead processes have left on this node. */
static void clean(uint64_t job)
{
    char begin[64], name[300];
    struct dirent *e;
    DIR *dir = opendir("/dev/shm");
    name_of_job(job, begin, sizeof begin);
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

/* Share them: the first process that has them sends them to all.  *found: there is one. */
static int spread(MPI_Comm s, int me, int r, bool *found)
{
    struct adopted *in = &adopted[r];
    look_for(r, in);
    const struct ftk_sure all = { s, NULL, "determinants of the lost" };
    int64_t root = in->found ? me : INT_MAX;
    int rc = ftk_sure_min(&all, &root, 1);
    if (rc != FTKIT_OK)
        return rc;
    *found = root != INT_MAX;
    return *found ? send_to_all(s, root == me, (int)root, in) : rc;
}

/* With keepers on other nodes: the node of the keeper may be lost, too. */
static bool on_one_node(const int *lost, int n)
{
    int node = -1;
    for (int r = 0; r < n; r++) {
        if (lost[r] && node >= 0 && ftk_log.node[r] != node)
            return false;
        node = lost[r] ? ftk_log.node[r] : node;
    }
    return true;
}

int ftk_det_search(MPI_Comm s, const int *lost, int n, bool *all, bool *led)
{
    const int planes = ftk_log.ctx->cfg.replicas;
    int me = 0;
    bool missing = false;
    forget_search();
    if (!ftk_log.mode->records)
        return FTKIT_OK;
    adopted = calloc((size_t)n, sizeof *adopted);
    if (!adopted)
        return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
    adopted_n = n;
    int mrc = PMPI_Comm_rank(s, &me);
    int rc = mrc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(mrc, "determinants of the lost");
    for (int r = 0; rc == FTKIT_OK && r < n; r++) {
        bool found = true;
        if (lost[r])
            rc = spread(s, me, r, &found);
        missing = missing || !found;
        *led = *led || (!found && planes > 1 && r / (n / planes) == ftk_log.epoch.leader);
    }
    *all = missing && !(ftk_log.mode->off_node && on_one_node(lost, n));
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

static void close_det(void)
{
    ftk_det_close();
    clean(ftk_log.ctx->job);
    forget_search();
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    begin_interval();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    return go_back();
}

static int load(const struct ftk_section *in)
{
    (void)in;
    return go_back();
}

const struct ftk_part ftk_part_det = {
    .close = close_det, .line = pass_line, .discard = withdraw, .roll_back = roll_back, .load = load
};

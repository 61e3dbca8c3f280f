/* The sender-based log: entries, and the bytes of long ones, in chunks of memory or of files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log/base/part.h"

/* A share of log.memory: a set is due then, and is written before the log is larger than
 * log.memory. */
#define NEARLY 0.75

/* ---- the arena --------------------------------------------------------------------------
 * Entries are one behind the other in chunks; a long entry has a chunk of its own.  All entries are
 * dropped at once when a line is committed.  The chunks stay for the next interval, because the
 * first touch of memory costs more than the copy.  A chunk that was empty for a whole interval is
 * freed.  Beyond log.memory chunks are mapped pieces of a file of the node: the kernel writes them
 * out, and takes their memory when needed. */

#define HUGE_BYTES (2u << 20)
#define LEAST_CHUNK (4u << 20)
#define MOST_CHUNK (8u << 20)
#define LONG_SHARE 4           /* an entry is long from this share of a chunk on */
#define KEPT_BYTES (64u << 20) /* so many bytes of empty chunks are never too many */
#define CLASSES 512            /* sizes of chunks: eight between two powers of two */

struct chunk {
    struct chunk *next;
    size_t room, used; /* bytes behind the chunk's head */
    bool mapped;
};

static struct chunk *chunks;         /* with entries, first the one that is being filled */
static struct chunk *empty[CLASSES]; /* by size */
static size_t chunk_bytes;           /* of all chunks */
static size_t used_bytes;            /* of entries and copies, with their heads, since the line */
static bool warned;                  /* that there is no file: once */

static struct {
    size_t bytes;        /* of messages, each copy once, and of dependency vectors */
    uint32_t generation; /* cuts of this rank so far */
    uint64_t spilled;    /* bytes of files that the log has taken */
    uint64_t logged_messages, logged_bytes;
} slog;

/* The entries before a cut, while the set of the cut is open; struct ftk_peer has the last ones. */
static struct {
    struct chunk *chunks;
    size_t used_bytes, bytes;
} before;

/* The size of a chunk for so many bytes, at least 8.  Few sizes, so that an empty chunk fits the
 * next long entry of about the same length. */
static size_t chunk_size(size_t bytes)
{
    size_t step = (size_t)1 << (60 - __builtin_clzll(bytes));
    return (bytes + step - 1) & ~(step - 1);
}

static struct chunk **empty_of(size_t bytes)
{
    int log2 = 63 - __builtin_clzll(bytes);
    return &empty[8 * log2 + (int)(bytes >> (log2 - 3) & 7)];
}

/* Bytes of a chunk of short entries. */
static size_t common_size(void)
{
    return ftk_log.ctx->cfg.log_memory < 16 * MOST_CHUNK ? LEAST_CHUNK : MOST_CHUNK;
}

/* A file without a name, so that no file is left however the process ends. */
static int open_spill(void)
{
    const char *dir = ftk_log.ctx->cfg.log_dir;
    const char *tmp = getenv("TMPDIR");
    char path[FTK_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/ftkit-log-XXXXXX", dir[0] ? dir : tmp ? tmp : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path); /* an error leaves a file, which does no harm */
    return fd;
}

static struct chunk *map_chunk(size_t bytes)
{
    void *p = MAP_FAILED;
    int fd = open_spill();
    int err = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    if (err == 0) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        err = p == MAP_FAILED ? errno : 0;
    }
    if (fd >= 0)
        (void)close(fd); /* the mapping holds the file */
    if (err != 0 && !warned) {
        warned = true;
        ftk_report(FTKIT_WARNING,
            "context %s: the message log goes beyond log.memory and has no file (%s): it stays in "
            "memory",
            ftk_log.ctx->cfg.name, strerror(err));
    }
    return p == MAP_FAILED ? NULL : p;
}

static void *on_heap(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, HUGE_BYTES, bytes) != 0)
        return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint */
    return p;
}

static void free_chunk(struct chunk *c)
{
    size_t bytes = sizeof *c + c->room;
    chunk_bytes -= bytes;
    if (c->mapped)
        (void)munmap(c, bytes);
    else
        free(c);
}

static struct chunk *pop_empty(size_t bytes)
{
    struct chunk **at = empty_of(bytes), *c = *at;
    if (c)
        *at = c->next;
    return c;
}

/* Free empty chunks until a new chunk fits into log.memory. */
static void free_empty(double bytes)
{
    for (size_t i = 0; i < CLASSES; i++)
        while (empty[i] && (double)chunk_bytes + bytes > ftk_log.ctx->cfg.log_memory) {
            struct chunk *c = empty[i];
            empty[i] = c->next;
            free_chunk(c);
        }
}

static struct chunk *new_chunk(size_t bytes)
{
    const struct ftk_config *cfg = &ftk_log.ctx->cfg;
    struct chunk *c = pop_empty(bytes);
    if (c)
        return c;
    free_empty((double)bytes); /* empty chunks of other sizes are no reason to use a file */
    if ((double)(chunk_bytes + bytes) > cfg->log_memory)
        c = map_chunk(bytes);
    bool mapped = c != NULL;
    if (mapped)
        slog.spilled += bytes;
    else
        c = on_heap(bytes);
    if (!c)
        return NULL;
    *c = (struct chunk){ .room = bytes - sizeof *c, .mapped = mapped };
    chunk_bytes += bytes;
    return c;
}

static void push_empty(struct chunk *c)
{
    struct chunk **at = empty_of(sizeof *c + c->room);
    c->used = 0;
    c->next = *at;
    *at = c;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* The size of a new chunk for so many bytes; *is_long: it has no other entries. */
static size_t size_for(size_t bytes, bool *is_long)
{
    size_t common = common_size();
    *is_long = bytes > common / LONG_SHARE;
    return *is_long ? chunk_size(sizeof(struct chunk) + bytes) : common;
}

static bool has_room(size_t bytes)
{
    return chunks && chunks->room - chunks->used >= bytes;
}

bool ftk_slog_reserve(size_t bytes)
{
    bool is_long;
    bytes = rounded(bytes);
    if (has_room(bytes))
        return true;
    struct chunk *c = new_chunk(size_for(bytes, &is_long));
    if (c)
        push_empty(c);
    return c != NULL;
}

static void *take_room(size_t bytes)
{
    bytes = rounded(bytes);
    used_bytes += bytes;
    if (!has_room(bytes)) {
        bool is_long;
        struct chunk *c = new_chunk(size_for(bytes, &is_long));
        if (!c)
            return NULL;
        /* a long entry does not end the chunk that is being filled */
        struct chunk **at = chunks && is_long ? &chunks->next : &chunks;
        c->next = *at;
        *at = c;
        c->used = bytes;
        return c + 1;
    }
    void *p = (char *)(chunks + 1) + chunks->used;
    chunks->used += bytes;
    return p;
}

/* Empty the chunks of a list. */
static void forget_chunks(struct chunk **list, bool all)
{
    for (size_t i = 0; i < CLASSES; i++) /* empty since the last line */
        while (empty[i] && (all || chunk_bytes > KEPT_BYTES)) {
            struct chunk *c = empty[i];
            empty[i] = c->next;
            free_chunk(c);
        }
    while (*list) {
        struct chunk *c = *list;
        *list = c->next;
        if (all || c->mapped) {
            free_chunk(c);
            continue;
        }
        push_empty(c);
    }
}

/* The reception records count, too: a program with small messages and many tags fills them
 * first. */
int64_t ftk_slog_calls_left(const struct ftkit_ctx *ctx, bool emptied)
{
    double most = NEARLY * ctx->cfg.log_memory;
    if (most == 0) /* the whole log goes to the file */
        return INT64_MAX;
    double kept = (double)(used_bytes + ftk_channel_bytes()), left = emptied ? most : most - kept;
    if (left <= 0)
        return 0;
    uint64_t calls =
        ctx->policy.calls > ftk_log.line.calls ? ctx->policy.calls - ftk_log.line.calls : 1;
    /* the rate is an estimate: look again after half of the calls */
    left *= (double)calls / fmax(kept, 1) / 2;
    return (int64_t)fmin(fmax(left, 1), 1e15);
}

struct ftk_entry *ftk_slog_new(int dest, int context, int tag, size_t bytes)
{
    const bool away = bytes >= FTK_AWAY;
    struct ftk_entry *e = take_room(sizeof *e + (away ? sizeof(struct ftk_away) : bytes));
    if (!e)
        return NULL;
    *e = (struct ftk_entry){ .real = MPI_REQUEST_NULL,
        .bytes = bytes,
        .context = context,
        .tag = tag,
        .away = away,
        .generation = slog.generation };
    if (away)
        *ftk_entry_away(e) = (struct ftk_away){ .data = NULL };
    struct ftk_peer *p = ftk_peer(dest);
    if (p->last)
        p->last->next = e;
    else
        p->first = e;
    p->last = e;
    slog.bytes += away ? 0 : bytes;
    slog.logged_messages++;
    slog.logged_bytes += bytes;
    return e;
}

uint32_t ftk_slog_generation(void)
{
    return slog.generation;
}

void *ftk_slog_room(size_t bytes)
{
    void *p = take_room(bytes);
    if (p)
        slog.bytes += bytes;
    return p;
}

void ftk_slog_drop_last(int dest)
{
    struct ftk_peer *p = ftk_peer(dest);
    struct ftk_entry *previous = NULL, *last = p->first;
    while (last && last->next) {
        previous = last;
        last = last->next;
    }
    if (!last)
        return;
    if (previous)
        previous->next = NULL;
    else
        p->first = NULL;
    p->last = previous;
    /* bytes that are away stay: other entries may have them */
    slog.bytes -= (last->away ? 0 : last->bytes) + last->deps_words * sizeof *last->deps;
    slog.logged_messages--;
    slog.logged_bytes -= last->bytes;
}

static void clear(void)
{
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        struct ftk_peer *p = ftk_peer(ftk_peers_rank(i));
        p->first = p->last = p->last_before = NULL;
    }
    slog.bytes = 0;
    used_bytes = 0;
    forget_chunks(&before.chunks, !ftk_log.on);
    forget_chunks(&chunks, !ftk_log.on);
    before.used_bytes = before.bytes = 0;
}

/* ---- line apart ---------------------------------------------------------------------- */

static int cut(bool apart)
{
    if (!apart)
        return FTKIT_OK;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        struct ftk_peer *p = ftk_peer(ftk_peers_rank(i));
        p->last_before = p->last;
    }
    before.chunks = chunks;
    before.used_bytes = used_bytes;
    before.bytes = slog.bytes;
    chunks = NULL;
    slog.generation++;
    return FTKIT_OK;
}

/* The set of the cut is committed: the entries before the cut go. */
static void drop_before(void)
{
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        struct ftk_peer *p = ftk_peer(ftk_peers_rank(i));
        if (p->last_before)
            p->first = p->last_before->next;
        if (!p->first)
            p->last = NULL;
        p->last_before = NULL;
    }
    slog.bytes -= before.bytes;
    used_bytes -= before.used_bytes;
    forget_chunks(&before.chunks, false);
    before.used_bytes = before.bytes = 0;
}

/* The set of the cut is given up: all entries are of one interval again. */
static void join_intervals(void)
{
    struct chunk **end = &chunks;
    while (*end)
        end = &(*end)->next;
    *end = before.chunks;
    before.chunks = NULL;
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        ftk_peer(ftk_peers_rank(i))->last_before = NULL;
    before.used_bytes = before.bytes = 0;
}

/* ---- the part ------------------------------------------------------------------------ */

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    if (kind == FTK_PASS_CUT)
        drop_before();
    else
        clear();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    clear();
    return FTKIT_OK;
}

static void close_slog(void)
{
    clear();
    memset(&slog, 0, sizeof slog);
}

static void figures(ftkit_info *info)
{
    info->log_messages = slog.logged_messages;
    info->log_bytes = slog.logged_bytes;
    info->log_held = slog.bytes;
    info->log_spilled = slog.spilled;
}

const struct ftk_part ftk_part_slog = { .close = close_slog,
    .figures = figures,
    .cut = cut,
    .line = pass_line,
    .discard = join_intervals,
    .roll_back = roll_back };

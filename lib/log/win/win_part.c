/* Windows as a part of the log: progress, sets, rollbacks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set has two things of the windows.  The section of the part has their epochs: at a line a fence
 * may have begun an epoch without operations, and MPI_Win_lock_all may hold.  A system region has
 * the memory of MPI_Win_allocate; it is restored when the communicators are.  Memory of
 * MPI_Win_create is the program's, which registers it.
 *
 * A replacement makes the windows of set-up again in the replay of set-up. */
#include <stdio.h>
#include <string.h>

#include "log/base/part.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/win.h"
#include "set/region.h"

/* ---- progress ------------------------------------------------------------------------ */

/* In a replay of set-up only MPI_Win_wait goes on with an exposure: the lost process may have
 * closed the exposure behind set-up. */
static void expose_all(void)
{
    if (ftk_log_is_rolling_back() || ftk_log_replays_setup())
        return;
    for (struct ftk_win *w = ftk_wins; w; w = w->next)
        if (w->exposure)
            ftk_win_expose(w);
}

static void progress_with_locks(void)
{
    expose_all();
    ftk_win_serve();
}

static bool idle(void)
{
    return ftk_wins == NULL;
}

/* Origins wait for what a target does in its waits. */
static bool may_sleep(void)
{
    for (const struct ftk_win *w = ftk_wins; w; w = w->next)
        if (w->exposure)
            return false;
    return true;
}

/* ---- rollbacks ----------------------------------------------------------------------- */

/* All messages of w have ended. */
static void forget_one(struct ftk_win *w)
{
    ftk_win_exposure_drop(w);
    ftk_win_passive_free(w);
    ftk_win_near_forget(w);
    ftk_win_forget(w);
    w->fence = false;
}

static void forget(void)
{
    for (struct ftk_win *w = ftk_wins; w; w = w->next)
        forget_one(w);
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    for (struct ftk_win *w = ftk_wins; w; w = w->next)
        ftk_win_near_let_go(w);
    return FTKIT_OK;
}

static void close_windows(void)
{
    forget();
    ftk_win_foreign_forget();
    ftk_win_close();
}

/* ---- a line -------------------------------------------------------------------------- */

/* Also those that were direct: how an operation goes depends on time. */
static bool has_operations(const struct ftk_win *w)
{
    for (int i = 0; i < w->vc->size; i++)
        if (w->queue[i].nops > 0 || ftk_win_near_is_open(w, i)
            || (w->passive && w->passive->done[i] < w->passive->sent[i]))
            return true;
    return w->used;
}

/* The first target of which this rank has a lock of MPI_Win_lock; -1: none.  A set can have
 * MPI_Win_lock_all. */
static int locked_target(const struct ftk_win *w)
{
    for (int i = 0; w->passive && !w->passive->all && i < w->vc->size; i++)
        if (w->passive->lock[i] != FTK_WIN_FREE)
            return i;
    return -1;
}

/* Why a set cannot have the state of w; NULL: it can. */
static const char *unfit(const struct ftk_win *w)
{
    if (w->nstart >= 0)
        return "an epoch of MPI_Win_start is open (call MPI_Win_complete before)";
    if (w->exposure)
        return "an epoch of MPI_Win_post is open (call MPI_Win_wait before)";
    if (has_operations(w))
        return "operations are not complete (call MPI_Win_fence or MPI_Win_flush_all before)";
    if (locked_target(w) >= 0)
        return "a lock is held (call MPI_Win_unlock before)";
    if (ftk_win_shared_in_loop(w))
        return "its shared memory was made inside the loop (make it before ftkit_recover, or free "
               "it before a set)";
    const char *why = ftk_win_is_registered(w) ? ftk_win_recipe_unfit(w) : NULL;
    return why ? why : ftk_win_ranges_unfit(w);
}

static int refuse(const struct ftk_win *w, const char *why)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "", lock[32] = "";
    const int target = locked_target(w);
    int len;
    (void)PMPI_Win_get_name(w->handle, name, &len); /* for the text only */
    if (target >= 0)
        snprintf(lock, sizeof lock, "; target %d is locked", target);
    return ftk_fail(FTKIT_ERR_STATE, "a set cannot have the window%s%s: %s%s", *name ? " " : "",
        name, why, lock);
}

static int cut(bool apart)
{
    (void)apart;
    ftk_win_requests_look(); /* the part under_way takes the complete ones */
    for (const struct ftk_win *w = ftk_wins; w; w = w->next) {
        const char *why = ftk_win_is_live(w) ? unfit(w) : NULL;
        if (why)
            return refuse(w, why);
    }
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    ftk_win_sweep();
}

/* ---- the section: for each window these words, then its recipe, then its ranges -------- */

enum { CONTEXT, FLAGS, SHARED, WORDS };
enum { HAS_FENCE = 1, HAS_ALL = 2, HAS_RANGES = 4, HAS_RECIPE = 8 };

static size_t words(void)
{
    size_t n = 0;
    for (const struct ftk_win *w = ftk_wins; w; w = w->next)
        if (ftk_win_is_live(w))
            n += WORDS + (ftk_win_is_registered(w) ? ftk_win_recipe_words(w) : 0)
                 + (w->dynamic ? ftk_win_ranges_words(w) : 0);
    return n;
}

static uint64_t *save(uint64_t *to)
{
    for (const struct ftk_win *w = ftk_wins; w; w = w->next) {
        if (!ftk_win_is_live(w))
            continue;
        const bool registered = ftk_win_is_registered(w);
        to[CONTEXT] = (uint64_t)w->vc->context;
        to[FLAGS] = (w->fence ? HAS_FENCE : 0) | (w->passive && w->passive->all ? HAS_ALL : 0)
                    | (w->dynamic ? HAS_RANGES : 0) | (registered ? HAS_RECIPE : 0);
        to[SHARED] = w->passive ? (uint64_t)w->passive->shared : 0;
        to += WORDS;
        if (registered)
            to = ftk_win_recipe_save(w, to);
        if (w->dynamic)
            to = ftk_win_ranges_save(w, to);
    }
    return to;
}

static int load_epochs(struct ftk_win *w, const uint64_t *from)
{
    w->fence = (from[FLAGS] & HAS_FENCE) != 0;
    if (!(from[FLAGS] & HAS_ALL) && from[SHARED] == 0)
        return FTKIT_OK;
    struct ftk_win_passive *p = ftk_win_passive(w);
    if (!p)
        return ftk_fail(FTKIT_ERR_NOMEM, "windows of a set");
    p->all = (from[FLAGS] & HAS_ALL) != 0;
    p->shared = (int)from[SHARED];
    return FTKIT_OK;
}

/* *at moves behind the window.  first: this process has not been at the line. */
static int load_one(const uint64_t **at, const uint64_t *end, bool first)
{
    const uint64_t *const from = *at;
    int rc = FTKIT_OK;
    if (end - from < WORDS || from[CONTEXT] >= FTK_LOG_ALL || from[SHARED] > (uint64_t)ftk_log.n)
        return ftk_fail(FTKIT_ERR_FORMAT, "windows of a set: damaged");
    const int context = (int)from[CONTEXT];
    *at += WORDS;
    if (from[FLAGS] & HAS_RECIPE)
        rc = ftk_win_recipe_load(context, at, end, first);
    struct ftk_win *w = ftk_win_in_context(context);
    if (rc == FTKIT_OK && !w)
        ftk_report(FTKIT_WARNING,
            "context %s: rank %d: the program has made a window inside its loop, which a "
            "replacement does not have: register its variable with ftkit_register_window()",
            ftk_log.ctx->cfg.name, ftk_log.me);
    if (rc == FTKIT_OK && w)
        rc = load_epochs(w, from);
    if (rc == FTKIT_OK && (from[FLAGS] & HAS_RANGES))
        rc = ftk_win_ranges_load(w, at, end);
    return rc;
}

/* Set-up has left an epoch open in this process, which the lost one closed before the line. */
static int end_epochs(void)
{
    for (struct ftk_win *w = ftk_wins; w; w = w->next) {
        if (!ftk_win_exposure_fail(w))
            return ftk_fail(FTKIT_ERR_STATE,
                "the program has left an epoch of MPI_Win_post open at ftkit_recover, and a set is "
                "restored: call MPI_Win_wait before");
        forget_one(w);
    }
    return FTKIT_OK;
}

/* Set-up has made windows that the lost process has freed before the line. */
static void let_others_go(const struct ftk_contexts *seen)
{
    for (struct ftk_win *w = ftk_wins, *next; w; w = next) {
        next = w->next;
        if (ftk_win_is_live(w) && !ftk_contexts_has(seen, w->vc->context))
            ftk_win_drop(w, false);
    }
}

/* The communicators of the line are there. */
static int load(const struct ftk_section *in)
{
    struct ftk_contexts seen = { 0 };
    ftk_win_sweep();
    if (!in->as_many)
        return FTKIT_OK;
    int rc = end_epochs();
    for (const uint64_t *w = in->w; rc == FTKIT_OK && w && w < in->end;) {
        if (w[CONTEXT] < FTK_LOG_ALL)
            ftk_contexts_add(&seen, (int)w[CONTEXT]);
        rc = load_one(&w, in->end, in->first);
    }
    if (rc == FTKIT_OK && in->first && in->w)
        let_others_go(&seen);
    return rc;
}

/* ---- the memory of MPI_Win_allocate and MPI_Win_allocate_shared, as a region ------------
 * For each window: context and bytes in two words, then words of shared memory, whose number is in
 * the upper half of the context, then the bytes, padded to words. */

enum { HEAD = 2 };

static size_t bytes_of(const struct ftk_win *w)
{
    return ftk_win_is_live(w) && w->allocated ? (size_t)w->place[w->vc->rank].size : 0;
}

/* All ranks of shared memory restore it together, also those without a byte of it. */
static bool is_in_region(const struct ftk_win *w)
{
    return bytes_of(w) > 0 || (ftk_win_is_live(w) && w->shared);
}

static size_t head_of(const struct ftk_win *w)
{
    return (HEAD + ftk_win_shared_words(w)) * sizeof(uint64_t);
}

static int measure_memory(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = 0;
    for (const struct ftk_win *w = ftk_wins; w; w = w->next)
        if (is_in_region(w))
            *bytes += head_of(w) + ftk_win_padded(bytes_of(w));
    return FTKIT_OK;
}

static int pack_memory(void *arg, void *to, size_t bytes)
{
    char *at = to;
    (void)arg;
    for (const struct ftk_win *w = ftk_wins; w; w = w->next) {
        const size_t n = bytes_of(w), head = head_of(w);
        const uint64_t words[HEAD] = {
            (uint64_t)w->vc->context | (uint64_t)ftk_win_shared_words(w) << 32, n
        };
        if (!is_in_region(w))
            continue;
        memcpy(at, words, sizeof words);
        if (w->shared)
            ftk_win_shared_save(w, at + sizeof words);
        ftk_win_near_copy(w, at + head, n);
        memset(at + head + n, 0, ftk_win_padded(n) - n);
        at += head + ftk_win_padded(n);
    }
    return (size_t)(at - (char *)to) == bytes
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_INTERNAL, "memory of windows: another size");
}

/* The bytes of a window that this process has, behind the words of shared memory. */
static int unpack_one(struct ftk_win *w, const char *words, const char *at, size_t bytes)
{
    if (bytes_of(w) != bytes || (size_t)(at - words) != ftk_win_shared_words(w) * sizeof(uint64_t))
        return ftk_fail(FTKIT_ERR_SIZE, "a window of the set has another size");
    if (w->shared)
        return ftk_win_shared_load(w, words, at, bytes);
    memcpy(w->base, at, bytes);
    return FTKIT_OK;
}

static int unpack_memory(void *arg, const void *from, size_t bytes)
{
    const char *at = from, *const end = at + bytes;
    (void)arg;
    while (at < end) {
        uint64_t head[HEAD];
        if ((size_t)(end - at) < sizeof head)
            return ftk_fail(FTKIT_ERR_FORMAT, "memory of windows: cut short");
        memcpy(head, at, sizeof head);
        at += sizeof head;
        const uint64_t context = head[0] & UINT32_MAX;
        const size_t more = (size_t)(head[0] >> 32) * sizeof(uint64_t);
        if (context >= FTK_LOG_ALL || more > (size_t)(end - at)
            || head[1] > (size_t)(end - at) - more
            || ftk_win_padded(head[1]) > (size_t)(end - at) - more)
            return ftk_fail(FTKIT_ERR_FORMAT, "memory of windows: damaged");
        struct ftk_win *w = ftk_win_in_context((int)context);
        int rc = FTKIT_OK;
        if (w)
            rc = unpack_one(w, at, at + more, head[1]);
        else if (more > 0)
            rc = ftk_win_shared_missing();
        if (rc != FTKIT_OK)
            return rc;
        at += more + ftk_win_padded(head[1]);
    }
    return FTKIT_OK;
}

static const struct ftk_system_region memory = {
    .name = "ftkit.win",
    .ops = { sizeof(ftkit_serializer), measure_memory, pack_memory, unpack_memory },
    .order = FTK_RESTORE_HANDLES,
    .may_lack = true,
    .differs_in_ranks = true,
};

/* ---- the part ------------------------------------------------------------------------ */

#define WINDOWS                                                                                    \
    .idle = idle, .forget = forget, .close = close_windows, .cut = cut, .line = pass_line,         \
    .roll_back = roll_back, .may_sleep = may_sleep, .region = &memory, .name = "win",              \
    .words = words, .save = save, .load = load

/* One team of all ranks: the one with locks. */
static const struct ftk_part with_locks = { .progress = progress_with_locks,
    .controls = ftk_win_controls,
    .ncontrols = FTK_WIN_CONTROLS,
    WINDOWS };
static const struct ftk_part without_locks = { .progress = expose_all, WINDOWS };

static const struct ftk_part *serves(void)
{
    return ftk_win_jobs_have_locks() ? &with_locks : &without_locks;
}

const struct ftk_part ftk_part_win = { .serves = serves };

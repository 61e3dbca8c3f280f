/* Slots of living and of ended jobs in the memory of a node (store/place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sets.h"
#include "store/place.h"

/* Call fn for one slot; TOOL_OK also when the file belongs to another user or was removed. */
static int visit(const char *path, ftk_slot_fn *fn, void *arg)
{
    struct stat st;
    int code = TOOL_OK;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == EACCES || errno == ENXIO))
        return TOOL_OK;
    if (fd < 0 || fstat(fd, &st) != 0) {
        ftk_tool_say("cannot read %s: %s", path, strerror(errno));
        code = TOOL_FAIL;
    } else if (S_ISREG(st.st_mode) && st.st_uid == geteuid()) {
        code = fn(path, fd, &st, arg);
    }
    if (fd >= 0)
        close(fd);
    return code;
}

int ftk_slots_each(const struct ftk_opts *o, ftk_slot_fn *fn, void *arg)
{
    const char *dir = o->nargs > 0 ? o->args[0] : "/dev/shm";
    char path[2 * FTK_PATH_MAX];
    const struct dirent *e;
    int code = TOOL_OK;
    DIR *d = opendir(dir);
    if (!d) {
        ftk_tool_say("cannot open %s: %s", dir, strerror(errno));
        return TOOL_FAIL;
    }
    while ((e = readdir(d))) {
        if (!ftk_place_is_slot(e->d_name))
            continue;
        snprintf(path, sizeof path, "%.*s/%s", FTK_PATH_MAX, dir, e->d_name);
        int bad = visit(path, fn, arg);
        code = bad ? bad : code;
    }
    closedir(d);
    return code;
}

/* ---- listing and verifying ----------------------------------------------------------- */

struct slot_job {
    int fd;
    struct ftk_slot slot;
};

/* Runs in a process of its own: the file may change or shrink while this reads it. */
static int read_segment(void *arg, FILE *out)
{
    const struct slot_job *job = arg;
    size_t bytes = FTK_SLOT_BYTES + (size_t)job->slot.bytes;
    char *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, job->fd, 0);
    int rc = p == MAP_FAILED ? ftk_fail_errno(errno, "slot")
                             : ftk_slot_check_segment(&job->slot, p + FTK_SLOT_BYTES);
    if (rc != FTKIT_OK)
        fputs(ftk_tool_why(ftk_detail_text()), out);
    return rc == FTKIT_OK ? TOOL_OK : TOOL_FAIL;
}

/* Read the header of a slot that is not in use; false: it is in use.  The slot is locked only
 * during this read, because a starting job does not take a slot that is locked. */
static bool read_header(int fd, struct ftk_slot *slot, bool *whole)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        return false;
    *whole = pread(fd, slot, sizeof *slot, 0) == (ssize_t)sizeof *slot;
    (void)flock(fd, LOCK_UN);
    return true;
}

/* Whether a process has taken the slot since its header was read. */
static bool was_taken(const struct slot_job *job)
{
    struct ftk_slot now;
    bool whole;
    return !read_header(job->fd, &now, &whole) || !whole
           || memcmp(&now, &job->slot, FTK_SLOT_BYTES_1) != 0; /* the fields of version 1 */
}

/* "in use", "empty", "foreign", "damaged", "sealed" or, if whole, "good" */
static const char *state_of(
    struct slot_job *job, const struct stat *st, bool whole, char why[FTK_DETAIL_MAX])
{
    uint64_t size = (uint64_t)st->st_size;
    why[0] = '\0';
    bool header;
    if (!read_header(job->fd, &job->slot, &header))
        return "in use";
    if (size < FTK_SLOT_BYTES || !header) {
        memset(&job->slot, 0, sizeof job->slot);
        return "empty";
    }
    int rc = ftk_slot_check(&job->slot, size - FTK_SLOT_BYTES);
    if (rc == FTKIT_ERR_NOT_FOUND)
        return "empty";
    if (rc != FTKIT_OK) {
        snprintf(why, FTK_DETAIL_MAX, "%s", ftk_tool_why(ftk_detail_text()));
        memset(&job->slot, 0, sizeof job->slot);
        return rc == FTKIT_ERR_FORMAT ? "foreign" : "damaged";
    }
    if (!whole)
        return "sealed";
    struct ftk_isolated r;
    ftk_isolate(read_segment, job, job->slot.bytes, &r);
    bool good = r.code == TOOL_OK;
    if (!good && was_taken(job)) {
        free(r.text);
        return "in use";
    }
    if (!good)
        snprintf(why, FTK_DETAIL_MAX, "%s", r.why[0] ? r.why : r.text ? r.text : "");
    free(r.text);
    return good ? "good" : "damaged";
}

static void print_slot(const char *path, const struct stat *st, const struct ftk_slot *s,
    const char *state, const char *why)
{
    char size[32];
    ftk_bytes_text((uint64_t)st->st_size, size);
    printf("%s  %s  %s", path, size, state);
    if (s->set > 0)
        printf("  set %" PRIu64 " of '%s', %srank %" PRIu32 " of %" PRIu32, s->set,
            ftk_tool_why(s->context), s->parity ? "parity of " : "", s->rank, s->nranks);
    if (s->program[0]) /* a call for each: ftk_tool_why() has one buffer */
        printf(", program '%s'", ftk_tool_why(s->program));
    if (s->directory[0])
        printf(", job in %s", ftk_tool_why(s->directory));
    printf("%s%s\n", why[0] ? "  " : "", why);
}

static void slot_json(struct ftk_json *j, const char *path, const struct stat *st,
    const struct ftk_slot *s, const char *state, const char *why)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "path", path);
    ftk_json_uint(j, "bytes", (uint64_t)st->st_size);
    ftk_json_text(j, "state", state);
    if (s->set > 0) {
        ftk_json_text(j, "context", s->context);
        ftk_json_uint(j, "set", s->set);
        ftk_json_uint(j, "rank", s->rank);
        ftk_json_uint(j, "ranks", s->nranks);
        ftk_json_bool(j, "parity", s->parity != 0);
        ftk_json_text(j, "program", s->program);
        ftk_json_text(j, "directory", s->directory);
    }
    if (why[0])
        ftk_json_text(j, "why", why);
    ftk_json_close(j, '}');
}

struct listing {
    struct ftk_json *j; /* NULL: text */
    bool whole;         /* read every byte */
    size_t n;
};

static int list_slot(const char *path, int fd, const struct stat *st, void *arg)
{
    struct listing *l = arg;
    struct slot_job job = { .fd = fd };
    char why[FTK_DETAIL_MAX];
    const char *state = state_of(&job, st, l->whole, why);
    l->n++;
    if (l->j)
        slot_json(l->j, path, st, &job.slot, state, why);
    else
        print_slot(path, st, &job.slot, state, why);
    return strcmp(state, "damaged") == 0 ? TOOL_FAIL : TOOL_OK;
}

int ftk_slots_list(const struct ftk_opts *o, bool whole)
{
    struct ftk_json json = { .out = stdout };
    struct listing l = { .j = o->json ? &json : NULL, .whole = whole };
    if (l.j) {
        ftk_json_open(l.j, NULL, '{');
        ftk_json_open(l.j, "slots", '[');
    }
    int code = ftk_slots_each(o, list_slot, &l);
    if (l.j) {
        ftk_json_close(l.j, ']');
        ftk_json_bool(l.j, "good", code == TOOL_OK);
        ftk_json_close(l.j, '}');
    } else if (l.n == 0 && code == TOOL_OK) {
        printf("no slots in %s\n", o->nargs > 0 ? o->args[0] : "/dev/shm");
    }
    return ftk_tool_end(code);
}

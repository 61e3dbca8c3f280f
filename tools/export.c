/* ftkit export: write a region of a set to a file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The .npy format: NumPy enhancement proposal 1, version 1.0. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sets.h"

/* A large array is refused when the ranks hold less than 1/HOLES_MAX of its bytes: such a shape
 * is probably a mistake. */
#define HOLES_MAX 64
#define HOLES_FREE (1u << 30) /* bytes up to which an array is not large */

void ftk_export_usage(FILE *out)
{
    fputs("usage: ftkit export [OPTION]... DIR SET REGION -o FILE\n"
          "\n"
          "Write a region of a set to FILE, after comparing it with its checksums.  A\n"
          "global array is put together from all ranks in its global shape, without halo;\n"
          "cells that no rank has are NaN, or 0 if the type has no NaN.  A replicated\n"
          "region is taken from rank 0.  Other regions differ from rank to rank: choose a\n"
          "rank by --rank.  SET is a number or newest, the newest complete set.  In a set\n"
          "of a line apart each rank is at a step of its own, so --rank is needed.\n"
          "\n"
          "  -o FILE         the file to write; FILE appears when it is complete\n"
          "  --rank R        only the data of rank R; of an array its block, without halo\n"
          "  --format npy    for NumPy (and most others): shape and type at the front; "
          "the\n"
          "                  default\n"
          "  --format raw    the values alone, little-endian, the last index fastest\n"
          "  --format files  the files of a region of files (ftkit_register_files(), with --rank;\n"
          "                  ftkit_register_joint_files(), without); FILE is a new directory for\n"
          "                  them\n"
          "  --context NAME  the context, when there are several in DIR\n"
          "  --progress      show the progress on standard error, also when it is no terminal\n"
          "\n"
          "Exit code:\n"
          "  0  FILE is written\n"
          "  1  set or region is damaged or not there, FILE cannot be written, or --rank is\n"
          "     missing with a set of a line apart\n"
          "  2  usage, or there are no sets\n",
        out);
}

/* One export; the work runs in a process of its own. */
struct export
{
    const char *dir;
    const struct ftk_manifest *m;
    const char *region;
    const char *path; /* of the file to write */
    int rank;         /* -1: not given */
    bool npy;
    int fd;
    /* the array as it is in the file */
    uint64_t ndims;
    uint64_t dims[FTKIT_DIMS_MAX + 1];
    uint64_t start; /* of the data in the file */
    uint64_t item;  /* bytes */
    struct ftk_seg_region first;
};

static int complain(void)
{
    ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    return TOOL_FAIL;
}

/* ---- the file ------------------------------------------------------------------------ */

static int put_at(struct export *x, const void *buf, size_t bytes, uint64_t at)
{
    const char *p = buf;
    while (bytes > 0) {
        ssize_t n = pwrite(x->fd, p, bytes < (8u << 20) ? bytes : 8u << 20, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            ftk_tool_say("cannot write %s: %s", x->path, strerror(n < 0 ? errno : EIO));
            return TOOL_FAIL;
        }
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

static const char *descr(uint32_t basic)
{
    static const char *const names[] = {
        [FTK_T_OPAQUE] = "|u1",
        [FTK_T_I8] = "|i1",
        [FTK_T_I16] = "<i2",
        [FTK_T_I32] = "<i4",
        [FTK_T_I64] = "<i8",
        [FTK_T_U8] = "|u1",
        [FTK_T_U16] = "<u2",
        [FTK_T_U32] = "<u4",
        [FTK_T_U64] = "<u8",
        [FTK_T_F32] = "<f4",
        [FTK_T_F64] = "<f8",
        [FTK_T_LONGDOUBLE] = "<f16",
        [FTK_T_C32] = "<c8",
        [FTK_T_C64] = "<c16",
        [FTK_T_CLONGDOUBLE] = "<c32",
        [FTK_T_CHAR] = "|S1",
        [FTK_T_BOOL] = "|b1",
    };
    return names[basic];
}

/* Write the head: magic, version, length, a dictionary, blanks up to a multiple of 64. */
static int put_npy_head(struct export *x)
{
    char head[1024] = "\x93NUMPY\x01\x00";
    char shape[24 * (FTKIT_DIMS_MAX + 1) + 1] = "";
    size_t n = 0;
    for (uint64_t d = 0; d < x->ndims; d++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRIu64 "%s", d ? " " : "",
            x->dims[d], d + 1 < x->ndims || x->ndims == 1 ? "," : "");
    n = 10
        + (size_t)snprintf(head + 10, sizeof head - 10,
            "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr(x->first.basic),
            shape);
    size_t all = (n + 1 + 63) / 64 * 64;
    memset(head + n, ' ', all - n);
    head[all - 1] = '\n';
    head[8] = (char)((all - 10) & 0xff);
    head[9] = (char)((all - 10) >> 8);
    x->start = all;
    return put_at(x, head, all, 0);
}

/* Set the shape of the array in the file; false: too many bytes. */
static bool set_shape(struct export *x, const uint64_t *dims, uint64_t ndims, uint64_t *bytes)
{
    uint64_t basic = ftk_basic_bytes(x->first.basic);
    x->item = x->first.elem_bytes;
    x->ndims = ndims;
    memcpy(x->dims, dims, ndims * sizeof *dims);
    if (x->item != basic)
        x->dims[x->ndims++] = x->item / basic;
    *bytes = x->item;
    for (uint64_t d = 0; d < ndims; d++)
        if (__builtin_mul_overflow(*bytes, dims[d], bytes))
            return false;
    return *bytes < INT64_MAX / 2;
}

/* ---- blocks of arrays ---------------------------------------------------------------- */

/* Write the interior of a block into an array of shape dims, at start, row by row. */
static int put_block(struct export *x, const struct ftk_seg_region *r, const char *block,
    const uint64_t *dims, const uint64_t *start)
{
    uint64_t at[FTKIT_DIMS_MAX] = { 0 };
    uint32_t last = r->ndims - 1;
    for (uint32_t d = 0; d < r->ndims; d++)
        if (r->local[d] == 0)
            return 0;
    for (;;) {
        uint64_t from = 0, to = 0;
        for (uint32_t d = 0; d < r->ndims; d++) {
            from = from * (r->local[d] + 2 * r->halo[d]) + at[d] + r->halo[d];
            to = to * dims[d] + at[d] + start[d];
        }
        int bad = put_at(
            x, block + from * x->item, (size_t)(r->local[last] * x->item), x->start + to * x->item);
        if (bad)
            return bad;
        uint32_t d = last;
        while (d > 0 && ++at[d - 1] == r->local[d - 1])
            at[--d] = 0;
        if (d == 0)
            return 0;
    }
}

static int fill(struct export *x, uint64_t bytes)
{
    static char buf[1 << 16]; /* a multiple of the size of every type */
    (void)ftk_basic_fill(x->first.basic, buf, sizeof buf);
    for (uint64_t at = 0; at < bytes;) {
        uint64_t n = bytes - at < sizeof buf ? bytes - at : sizeof buf;
        if (put_at(x, buf, (size_t)n, x->start + at) != 0)
            return TOOL_FAIL;
        at += n;
    }
    return 0;
}

/* ---- survey -------------------------------------------------------------------------- */

/* Facts from the heads of all ranks: which ranks have the region, and how many bytes of an array
 * they hold. */
struct survey {
    struct export *x;
    bool any, differ;
    bool apart;           /* the ranks are at different steps */
    uint64_t ranks, held; /* bytes */
};

static bool same_array(const struct ftk_seg_region *a, const struct ftk_seg_region *b)
{
    return a->kind == b->kind && a->basic == b->basic && a->elem_bytes == b->elem_bytes
           && a->ndims == b->ndims
           && memcmp(a->global, b->global, a->ndims * sizeof a->global[0]) == 0;
}

static int survey_head(const void *head, const struct ftk_manifest_part *p, void *arg)
{
    struct survey *s = arg;
    const struct ftk_seg_region *r = ftk_seg_find(head, s->x->region);
    uint64_t held;
    (void)p;
    if (((const struct ftk_seg_header *)head)->flags & FTK_SEG_APART)
        s->apart = true;
    if (!r)
        return FTKIT_OK;
    if (!s->any)
        s->x->first = *r;
    else if (!same_array(&s->x->first, r))
        s->differ = true;
    s->any = true;
    s->ranks++;
    held = r->elem_bytes;
    for (uint32_t d = 0; d < r->ndims; d++)
        held *= r->local[d]; /* the head was checked: no overflow */
    if (__builtin_add_overflow(s->held, held, &s->held))
        s->held = UINT64_MAX;
    return FTKIT_OK;
}

static bool is_of_all_ranks(uint32_t kind)
{
    return kind == FTK_KIND_ARRAY || kind == FTK_KIND_REPLICATED;
}

static int take_survey(struct export *x, struct survey *s)
{
    for (uint32_t i = 0; i < x->m->nparts; i++)
        if (x->m->level->heads(x->dir, x->m, i, survey_head, s) != FTKIT_OK)
            return complain();
    if (!s->any) {
        ftk_tool_say("set %" PRIu64 " has no region '%s'; `ftkit show %s %" PRIu64 "` lists the "
                     "regions",
            x->m->set, x->region, x->dir, x->m->set);
        return TOOL_FAIL;
    }
    if (s->differ) {
        ftk_tool_say(
            "the ranks disagree on kind, type or shape of '%s'; --rank takes the region of "
            "one rank",
            x->region);
        return TOOL_FAIL;
    }
    if (s->apart && s->ranks > 1 && is_of_all_ranks(x->first.kind)) {
        ftk_tool_say("set %" PRIu64 " is of a line apart (checkpoint.line = apart): each rank was "
                     "at a step of its own, so the parts of '%s' do not belong together; --rank "
                     "takes that of one rank",
            x->m->set, x->region);
        return TOOL_FAIL;
    }
    return 0;
}

/* ---- exporting ----------------------------------------------------------------------- */

static int export_array(struct export *x, const struct survey *s)
{
    uint64_t bytes;
    if (!set_shape(x, x->first.global, x->first.ndims, &bytes)
        || (bytes > HOLES_FREE && bytes / HOLES_MAX > s->held)) {
        ftk_tool_say("'%s': the ranks hold %" PRIu64 " bytes, next to nothing of the global array; "
                     "--rank takes the block of one rank",
            x->region, s->held);
        return TOOL_FAIL;
    }
    int bad = x->npy ? put_npy_head(x) : 0;
    if (!bad && s->held != bytes)
        bad = fill(x, bytes);
    for (uint32_t k = 0; k < x->m->nranks && !bad; k++) {
        void *seg = NULL;
        const struct ftk_seg_region *r = NULL;
        int rc = ftk_sets_region(x->dir, x->m, k, x->region, &seg, &r);
        if (rc == FTKIT_ERR_NOT_FOUND)
            continue; /* the survey has read all heads, so this rank has no block */
        if (rc == FTKIT_OK && !same_array(&x->first, r))
            rc = ftk_fail(FTKIT_ERR_MISMATCH, "rank %" PRIu32 " has changed", k);
        bad = rc == FTKIT_OK
                  ? put_block(x, r, ftk_seg_data_c(seg) + r->offset, x->first.global, r->start)
                  : complain();
        free(seg);
    }
    return bad;
}

static int export_rank(struct export *x, uint32_t rank)
{
    static const uint64_t origin[FTKIT_DIMS_MAX];
    void *seg = NULL;
    const struct ftk_seg_region *r = NULL;
    uint64_t bytes = 0;
    int bad = 0;
    if (ftk_sets_region(x->dir, x->m, rank, x->region, &seg, &r) != FTKIT_OK)
        return complain();
    bool array = r->kind == FTK_KIND_ARRAY;
    x->first = *r;
    (void)set_shape(x, array ? r->local : &r->count, array ? r->ndims : 1, &bytes);
    if (x->npy)
        bad = put_npy_head(x);
    const char *data = ftk_seg_data_c(seg) + r->offset;
    if (!bad)
        bad = array ? put_block(x, r, data, r->local, origin)
                    : put_at(x, data, (size_t)r->bytes, x->start);
    free(seg);
    return bad;
}

/* Runs in a process of its own. */
static int export_region(void *arg, FILE *out)
{
    struct export *x = arg;
    struct survey s = { .x = x };
    (void)out;
    int bad;
    if (x->rank >= 0) {
        bad = export_rank(x, (uint32_t)x->rank);
    } else {
        bad = take_survey(x, &s);
        if (!bad && x->first.kind == FTK_KIND_ARRAY)
            bad = export_array(x, &s);
        else if (!bad && (x->first.kind == FTK_KIND_REPLICATED || x->m->nranks == 1))
            bad = export_rank(x, 0);
        else if (!bad) {
            ftk_tool_say(
                "%" PRIu64 " ranks have a '%s' of their own: add --rank", s.ranks, x->region);
            bad = TOOL_USAGE;
        }
    }
    if (!bad && fsync(x->fd) != 0 && errno != EINVAL) {
        ftk_tool_say("cannot write %s: %s", x->path, strerror(errno));
        bad = TOOL_FAIL;
    }
    return bad;
}

/* Write a temporary file beside path, then rename it to path. */
static int export_file(struct export *x, const char *path, uint64_t bytes)
{
    char tmp[FTK_PATH_MAX];
    struct ftk_isolated r;
    errno = ENAMETOOLONG;
    size_t n = (size_t)snprintf(tmp, sizeof tmp, "%s.XXXXXX", path);
    x->fd = n < sizeof tmp ? mkstemp(tmp) : -1;
    if (x->fd < 0) {
        ftk_tool_say("%s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    ftk_progress_work(0, "exporting '%s' of set %" PRIu64, x->region, x->m->set);
    ftk_isolate(export_region, x, bytes, &r);
    ftk_progress_clear();
    free(r.text);
    if (r.why[0])
        ftk_tool_say("set %" PRIu64 ": %s", x->m->set, r.why);
    mode_t mask = umask(0);
    (void)umask(mask);
    bool bad = fchmod(x->fd, 0666 & ~mask) != 0;
    bad |= close(x->fd) != 0;
    if (r.code == TOOL_OK && (bad || rename(tmp, path) != 0)) {
        ftk_tool_say("%s: %s", path, strerror(errno));
        r.code = TOOL_FAIL;
    }
    if (r.code != TOOL_OK)
        (void)unlink(tmp);
    return r.code;
}

static bool is_of_files(const struct ftk_opts *o)
{
    return o->format && strcmp(o->format, "files") == 0;
}

static int export_set(const struct ftk_where *w, uint64_t set, const struct ftk_opts *o)
{
    struct ftk_manifest m;
    struct ftk_set_entry e = { 0 };
    struct export x = {
        .dir = w->dir, .m = &m, .region = o->args[2], .path = o->output, .rank = o->rank
    };
    int rc = ftk_sets_open(w->dir, w->contexts[0], set, &m);
    if (rc != FTKIT_OK) {
        ftk_set_missing(w->dir, rc);
        return TOOL_FAIL;
    }
    x.npy = !o->format || strcmp(o->format, "npy") == 0;
    int code;
    if (o->rank >= 0 && (uint32_t)o->rank >= m.nranks) {
        ftk_tool_say("there is no rank %d: set %" PRIu64 " has the ranks 0 to %" PRIu32, o->rank,
            set, m.nranks - 1);
        code = TOOL_USAGE;
    } else {
        (void)ftk_sets_examine(w->dir, w->contexts[0], set, &e); /* for its size */
        code = is_of_files(o) ? ftk_export_files(w->dir, &m, x.region, o->rank, o->output, e.bytes)
                              : export_file(&x, o->output, e.bytes);
    }
    ftk_manifest_free(&m);
    return code;
}

int ftk_export_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    uint64_t set;
    int code = ftk_opts_parse(argc, argv,
        OPT_CONTEXT | OPT_RANK | OPT_OUTPUT | OPT_FORMAT | OPT_PROGRESS, ftk_export_usage, &o);
    if (code)
        return code - 1;
    code = ftk_opts_args(&o, ftk_export_usage, 3, "DIR SET REGION");
    if (code)
        return code;
    if (!o.output)
        return ftk_usage_wrong(ftk_export_usage, "-o FILE is missing: the file to write");
    if (o.format && strcmp(o.format, "npy") != 0 && strcmp(o.format, "raw") != 0
        && !is_of_files(&o))
        return ftk_usage_wrong(
            ftk_export_usage, "--format is npy, raw or files, not '%s'", ftk_tool_why(o.format));
    if (ftk_set_number(o.args[1], &set) != 0)
        return TOOL_USAGE;
    code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, false);
    if (code == 0)
        code = ftk_where_single(&w);
    if (code == 0 && set == 0)
        code = ftk_set_newest(w.dir, w.contexts[0], &set);
    if (code == 0)
        code = export_set(&w, set, &o);
    ftk_where_free(&w);
    return ftk_tool_end(code);
}

/* ftkit show: show the contents of a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sets.h"

void ftk_show_usage(FILE *out)
{
    fputs("usage: ftkit show [--json] [--context NAME] DIR [SET]\n"
          "\n"
          "Show the contents of a set: its regions, parts, ranks, run and dates.  SET is a\n"
          "number or newest, the newest complete set; without SET: newest.\n"
          "\n"
          "  --context NAME  the context, when there are several in DIR\n"
          "  --json          as an object: directory, context, set, state, why, run,\n"
          "                  program (null: an older ftkit wrote the set), ranks, line\n"
          "                  (together; apart: each rank was at a step of its own; null:\n"
          "                  not known), saved (by rank 0), completed, bytes (of the\n"
          "                  files), region_bytes, regions[]: name, kind, type, values (of\n"
          "                  a type in an item), shape (of the global array, or what one\n"
          "                  rank has; null when the ranks differ), halo, count_min,\n"
          "                  count_max (items of a rank), bytes (of all), ranks (that have\n"
          "                  it); files[] (that the program wrote, and that can be read in\n"
          "                  the directory of the set): name, directory, ranks, files, bytes;\n"
          "                  parts[]: file, ranks[] (first, last), bytes; unreadable[]: file,\n"
          "                  text\n"
          "\n"
          "Exit code:\n"
          "  0  the set is complete\n"
          "  1  the set is not complete, a part cannot be read, or there is no such set\n"
          "  2  usage, or there are no sets\n",
        out);
}

/* ---- facts from the heads ------------------------------------------------------------ */

/* A region over all ranks. */
struct region {
    struct ftk_seg_region first;
    uint64_t min, max; /* items */
    uint64_t bytes, ranks;
};

/* Plain files of a region, over all ranks. */
struct plain {
    char name[FTKIT_NAME_MAX + 1];
    char dir[FTKIT_NAME_MAX + 64]; /* of the region, without that of the rank */
    uint64_t ranks, files, bytes;
};

struct summary {
    const char *dir;
    const struct ftk_manifest *m;
    struct ftk_set_entry e;
    bool json;
    struct region *v;
    size_t n, room;
    struct plain *plain;
    size_t nplain;
    uint64_t bytes;
    uint64_t wall_ns; /* of the lowest rank that can be read */
    uint32_t wall_rank;
    uint32_t flags;                     /* of all heads that can be read */
    char (*unreadable)[FTK_DETAIL_MAX]; /* [nparts] why a part cannot be read; "": it can */
};

static struct region *find(struct summary *s, const struct ftk_seg_region *r)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i].first.name, r->name) == 0)
            return &s->v[i];
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct region *v = realloc(s->v, room * sizeof *v);
        if (!v)
            return NULL;
        s->v = v;
        s->room = room;
    }
    s->v[s->n] = (struct region){ .first = *r, .min = r->count, .max = r->count };
    return &s->v[s->n++];
}

static int add_head(const void *head, const struct ftk_manifest_part *p, void *arg)
{
    struct summary *s = arg;
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    (void)p;
    for (uint32_t i = 0; i < h->nregions; i++) {
        struct region *g = find(s, &r[i]);
        if (!g)
            return ftk_fail(FTKIT_ERR_NOMEM, "table of regions");
        g->min = r[i].count < g->min ? r[i].count : g->min;
        g->max = r[i].count > g->max ? r[i].count : g->max;
        g->bytes += r[i].bytes;
        g->ranks++;
        s->bytes += r[i].bytes;
    }
    s->flags |= h->flags;
    if (s->wall_ns == 0 || h->rank < s->wall_rank) {
        s->wall_ns = h->wall_ns;
        s->wall_rank = h->rank;
    }
    return FTKIT_OK;
}

static void add_plain(const struct ftk_plain_facts *f, void *arg)
{
    struct summary *s = arg;
    size_t i = 0;
    while (i < s->nplain && strcmp(s->plain[i].name, f->region) != 0)
        i++;
    if (i == s->nplain) { /* the table has room for each region */
        const char *rank = strrchr(f->dir, '/');
        snprintf(s->plain[i].name, sizeof s->plain[i].name, "%s", f->region);
        snprintf(s->plain[i].dir, sizeof s->plain[i].dir, "%.*s", (int)(rank - f->dir), f->dir);
        s->nplain++;
    }
    s->plain[i].ranks++;
    s->plain[i].files += f->files;
    s->plain[i].bytes += f->bytes;
}

static void cannot_read(struct summary *s, uint32_t part)
{
    char *why = s->unreadable[part];
    if (!why[0])
        snprintf(why, sizeof s->unreadable[part], "%s", ftk_detail_text());
    if (!why[0])
        why[0] = '?';
}

static void read_heads(struct summary *s)
{
    for (uint32_t i = 0; i < s->m->nparts; i++)
        if (s->m->level->heads(s->dir, s->m, i, add_head, s) != FTKIT_OK)
            cannot_read(s, i);
    s->plain = ftk_tool_alloc((s->n + 1) * sizeof *s->plain);
    for (uint32_t r = 0; s->m->level->plain && r < s->m->nranks; r++)
        if (!s->unreadable[s->m->part_of[r]][0]
            && s->m->level->plain(s->dir, s->m, r, add_plain, s) != FTKIT_OK)
            cannot_read(s, s->m->part_of[r]);
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "?", "flat", "replicated", "array", "growing",
        "serialized" };
    return names[kind < sizeof names / sizeof names[0] ? kind : 0];
}

static uint64_t values_of(const struct ftk_seg_region *r)
{
    return r->elem_bytes / ftk_basic_bytes(r->basic); /* the head was checked */
}

/* ---- text ---------------------------------------------------------------------------- */

static void shape_text(const struct region *g, char buf[400])
{
    size_t n = 0;
    if (g->first.kind == FTK_KIND_ARRAY) {
        for (uint32_t d = 0; d < g->first.ndims; d++)
            n += (size_t)snprintf(
                buf + n, 400 - n, "%s%" PRIu64, d ? " x " : "", g->first.global[d]);
    } else if (g->min == g->max) {
        snprintf(buf, 400, "%" PRIu64, g->min);
    } else {
        snprintf(buf, 400, "%" PRIu64 "..%" PRIu64, g->min, g->max);
    }
}

static void print_region(FILE *out, const struct region *g)
{
    char shape[400], type[64], size[32];
    uint64_t values = values_of(&g->first);
    shape_text(g, shape);
    ftk_bytes_text(g->bytes, size);
    if (values == 1)
        snprintf(type, sizeof type, "%s", ftk_basic_name(g->first.basic));
    else
        snprintf(type, sizeof type, "%s x %" PRIu64, ftk_basic_name(g->first.basic), values);
    fprintf(out, "  %-20s %-11s %-12s %-20s %6" PRIu64 " %9s\n", g->first.name,
        kind_name(g->first.kind), type, shape, g->ranks, size);
}

static void print_plain(FILE *out, const struct plain *p)
{
    char size[32];
    ftk_bytes_text(p->bytes, size);
    fprintf(out, "  %-20s %s/rank-..., %" PRIu64 " rank%s, %" PRIu64 " file%s, %s\n", p->name,
        p->dir, p->ranks, p->ranks == 1 ? "" : "s", p->files, p->files == 1 ? "" : "s", size);
}

/* The next range of consecutive ranks in a part, at or after *first, becomes *first..*last; false:
 * no further range. */
static bool next_range(const struct ftk_manifest *m, uint32_t part, uint32_t *first, uint32_t *last)
{
    uint32_t i = *first;
    while (i < m->nranks && m->part_of[i] != part)
        i++;
    *first = *last = i;
    while (*last + 1 < m->nranks && m->part_of[*last + 1] == part)
        ++*last;
    return i < m->nranks;
}

static void print_part(FILE *out, const struct summary *s, uint32_t i)
{
    char size[32], name[FTK_SETS_DIR_NAME_MAX];
    uint32_t first = 0, last = 0;
    ftk_bytes_text(s->m->parts[i].file_bytes, size);
    s->m->level->part_name(s->m->parts[i].part, name);
    fprintf(out, "  %s  %9s  ranks", name, size);
    for (int n = 0; next_range(s->m, i, &first, &last); first = last + 1, n++)
        fprintf(out, first == last ? "%s %" PRIu32 : "%s %" PRIu32 "-%" PRIu32, n ? "," : "", first,
            last);
    fputc('\n', out);
    if (s->unreadable[i][0])
        fprintf(out, "    cannot be read: %s\n", ftk_tool_why(s->unreadable[i]));
}

static void print_text(FILE *out, const struct summary *s)
{
    char saved[32], completed[32], files[32], all[32];
    ftk_time_text((int64_t)(s->wall_ns / 1000000000u), saved);
    ftk_time_text(s->e.written_s, completed);
    ftk_bytes_text(s->e.bytes, files);
    ftk_bytes_text(s->bytes, all);
    fprintf(out, "set        %" PRIu64 " of '%s', %s\n", s->e.set, s->m->context,
        ftk_state_name(s->e.state));
    if (s->e.state != FTK_SET_COMPLETE)
        fprintf(out, "           %s\n", ftk_tool_why(s->e.why));
    fprintf(out, "run        %016" PRIx64 "\n", s->m->run);
    if (s->m->program[0])
        fprintf(out, "program    %s\n", s->m->program);
    if (s->wall_ns)
        fprintf(out, "saved      %s\n", saved);
    fprintf(out, "completed  %s\nranks      %" PRIu32 "\n", completed, s->m->nranks);
    if (s->flags & FTK_SEG_APART)
        fputs("line       apart: each rank was at a step of its own\n", out);
    fprintf(out, "bytes      %s in files, %s of regions\n\nregions\n", files, all);
    fprintf(out, "  %-20s %-11s %-12s %-20s %6s %9s\n", "name", "kind", "type", "shape", "ranks",
        "bytes");
    for (size_t i = 0; i < s->n; i++)
        print_region(out, &s->v[i]);
    if (s->nplain > 0)
        fputs("\nfiles of the program\n", out);
    for (size_t i = 0; i < s->nplain; i++)
        print_plain(out, &s->plain[i]);
    fputs("\nparts\n", out);
    for (uint32_t i = 0; i < s->m->nparts; i++)
        print_part(out, s, i);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void numbers(struct ftk_json *j, const char *name, const uint64_t *v, size_t n)
{
    ftk_json_open(j, name, '[');
    for (size_t i = 0; i < n; i++)
        ftk_json_uint(j, NULL, v[i]);
    ftk_json_close(j, ']');
}

static void region_json(struct ftk_json *j, const struct region *g)
{
    const struct ftk_seg_region *r = &g->first;
    bool array = r->kind == FTK_KIND_ARRAY;
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", r->name);
    ftk_json_text(j, "kind", kind_name(r->kind));
    ftk_json_text(j, "type", ftk_basic_name(r->basic));
    ftk_json_uint(j, "values", values_of(r));
    if (array)
        numbers(j, "shape", r->global, r->ndims);
    else if (g->min == g->max)
        numbers(j, "shape", &g->min, 1);
    else
        ftk_json_null(j, "shape");
    if (array)
        numbers(j, "halo", r->halo, r->ndims);
    else
        ftk_json_null(j, "halo");
    ftk_json_uint(j, "count_min", g->min);
    ftk_json_uint(j, "count_max", g->max);
    ftk_json_uint(j, "bytes", g->bytes);
    ftk_json_uint(j, "ranks", g->ranks);
    ftk_json_close(j, '}');
}

static void plain_json(struct ftk_json *j, const struct plain *p)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", p->name);
    ftk_json_text(j, "directory", p->dir);
    ftk_json_uint(j, "ranks", p->ranks);
    ftk_json_uint(j, "files", p->files);
    ftk_json_uint(j, "bytes", p->bytes);
    ftk_json_close(j, '}');
}

static void part_json(struct ftk_json *j, const struct summary *s, uint32_t i)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    uint32_t first = 0, last = 0;
    s->m->level->part_name(s->m->parts[i].part, name);
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "file", name);
    ftk_json_open(j, "ranks", '[');
    for (; next_range(s->m, i, &first, &last); first = last + 1) {
        uint64_t range[2] = { first, last };
        numbers(j, NULL, range, 2);
    }
    ftk_json_close(j, ']');
    ftk_json_uint(j, "bytes", s->m->parts[i].file_bytes);
    ftk_json_close(j, '}');
}

static void unreadable_json(struct ftk_json *j, const struct summary *s)
{
    ftk_json_open(j, "unreadable", '[');
    for (uint32_t i = 0; i < s->m->nparts; i++) {
        char name[FTK_SETS_DIR_NAME_MAX];
        if (!s->unreadable[i][0])
            continue;
        s->m->level->part_name(s->m->parts[i].part, name);
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "file", name);
        ftk_json_text(j, "text", ftk_tool_why(s->unreadable[i]));
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, ']');
}

static void line_json(struct ftk_json *j, const struct summary *s)
{
    if (s->flags & FTK_SEG_APART)
        ftk_json_text(j, "line", "apart");
    else if (s->wall_ns)
        ftk_json_text(j, "line", "together");
    else
        ftk_json_null(j, "line");
}

static void print_json(FILE *out, const struct summary *s)
{
    struct ftk_json j = { .out = out };
    char run[24], saved[32], completed[32];
    snprintf(run, sizeof run, "%016" PRIx64, s->m->run);
    ftk_time_text((int64_t)(s->wall_ns / 1000000000u), saved);
    ftk_time_text(s->e.written_s, completed);
    ftk_json_open(&j, NULL, '{');
    ftk_json_text(&j, "directory", s->dir);
    ftk_json_text(&j, "context", s->m->context);
    ftk_json_uint(&j, "set", s->e.set);
    ftk_json_text(&j, "state", ftk_state_name(s->e.state));
    if (s->e.state == FTK_SET_COMPLETE)
        ftk_json_null(&j, "why");
    else
        ftk_json_text(&j, "why", ftk_tool_why(s->e.why));
    ftk_json_text(&j, "run", run);
    if (s->m->program[0])
        ftk_json_text(&j, "program", s->m->program);
    else
        ftk_json_null(&j, "program");
    ftk_json_uint(&j, "ranks", s->m->nranks);
    line_json(&j, s);
    if (s->wall_ns)
        ftk_json_text(&j, "saved", saved);
    else
        ftk_json_null(&j, "saved");
    ftk_json_text(&j, "completed", completed);
    ftk_json_uint(&j, "bytes", s->e.bytes);
    ftk_json_uint(&j, "region_bytes", s->bytes);
    ftk_json_open(&j, "regions", '[');
    for (size_t i = 0; i < s->n; i++)
        region_json(&j, &s->v[i]);
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "files", '[');
    for (size_t i = 0; i < s->nplain; i++)
        plain_json(&j, &s->plain[i]);
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "parts", '[');
    for (uint32_t i = 0; i < s->m->nparts; i++)
        part_json(&j, s, i);
    ftk_json_close(&j, ']');
    unreadable_json(&j, s);
    ftk_json_close(&j, '}');
}

/* ---- the command --------------------------------------------------------------------- */

/* Runs in a process of its own. */
static int summarize(void *arg, FILE *out)
{
    struct summary *s = arg;
    int code = s->e.state == FTK_SET_COMPLETE ? TOOL_OK : TOOL_FAIL;
    s->unreadable = ftk_tool_alloc((s->m->nparts + (size_t)1) * sizeof *s->unreadable);
    read_heads(s);
    for (uint32_t i = 0; i < s->m->nparts; i++)
        if (s->unreadable[i][0])
            code = TOOL_FAIL;
    if (s->json)
        print_json(out, s);
    else
        print_text(out, s);
    free(s->unreadable);
    free(s->plain);
    free(s->v);
    return code;
}

static int show(const struct ftk_where *w, uint64_t set, bool json)
{
    struct ftk_manifest m;
    struct ftk_isolated r;
    struct summary s = { .dir = w->dir, .m = &m, .json = json };
    int rc = ftk_sets_examine(w->dir, w->contexts[0], set, &s.e);
    if (rc != FTKIT_OK) {
        ftk_set_missing(w->dir, rc);
        return TOOL_FAIL;
    }
    if (ftk_sets_manifest(w->dir, w->contexts[0], set, &m) != FTKIT_OK) {
        ftk_tool_say("%s; `ftkit repair %s %" PRIu64 "` makes the manifest again if the parts are "
                     "good",
            ftk_tool_why(ftk_detail_text()), w->dir, set);
        return TOOL_FAIL;
    }
    ftk_isolate(summarize, &s, s.e.bytes / 16, &r);
    if (r.text)
        fputs(r.text, stdout);
    if (r.why[0])
        ftk_tool_say("set %" PRIu64 ": %s", set, r.why);
    free(r.text);
    ftk_manifest_free(&m);
    return r.code;
}

int ftk_show_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    uint64_t set = 0;
    int code = ftk_opts_parse(argc, argv, OPT_JSON | OPT_CONTEXT, ftk_show_usage, &o);
    if (code)
        return code - 1;
    code = ftk_opts_args(&o, ftk_show_usage, 1, "DIR SET");
    if (code)
        return code;
    if (o.nargs == 2 && ftk_set_number(o.args[1], &set) != 0)
        return TOOL_USAGE;
    code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, true);
    set = w.set ? w.set : set;
    if (code == 0)
        code = ftk_where_single(&w);
    if (code == 0 && set == 0)
        code = ftk_set_newest(w.dir, w.contexts[0], &set);
    if (code == 0)
        code = show(&w, set, o.json);
    ftk_where_free(&w);
    return ftk_tool_end(code);
}

/* Reading the communication matrix of a job (see log.matrix).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     # ftkit communication matrix 1
 *     # context: heat
 *     # ranks: 4
 *     # ...
 *     from,to,messages,bytes
 *     0,1,100,80000
 *     # end: 1 pairs */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cut.h"

#define RANKS_MAX (1 << 24)

struct source {
    const char *path;
    FILE *f;
    char *line; /* without its newline */
    size_t room;
    uint64_t number; /* of the line, from 1 */
    size_t pairs_room;
};

FTK_PRINTF(2, 3) static bool wrong(const struct source *s, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *place = NULL;
    if (asprintf(&place, "%s:%" PRIu64, s->path, s->number) < 0)
        place = NULL;
    ftk_tool_say("%s: %s", place ? ftk_tool_why(place) : "matrix", text);
    free(place);
    return false;
}

/* Read the next line; false, after a message: there is none, or it is not whole. */
static bool next_line(struct source *s)
{
    ssize_t n = getline(&s->line, &s->room, s->f);
    s->number++;
    if (n < 0 && ferror(s->f))
        return wrong(s, "cannot be read: %s", strerror(errno));
    if (n <= 0)
        return wrong(s, "the file ends here and is not whole");
    if (s->line[n - 1] != '\n' || strlen(s->line) != (size_t)n)
        return wrong(s, "this is no line of text");
    s->line[n - 1] = '\0';
    return true;
}

/* Parse digits up to the byte end, and return the place behind end; NULL: the text is no number,
 * or the number is too large. */
static const char *number(const char *text, char end, uint64_t *out)
{
    uint64_t v = 0;
    const char *p = text;
    if (*p == '0' && p[1] != end)
        return NULL; /* no leading zeros: each number has one spelling */
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10u, &v)
            || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return NULL;
    if (p == text || *p != end)
        return NULL;
    *out = v;
    return end ? p + 1 : p;
}

static bool read_head(struct source *s, struct ftk_matrix *m)
{
    static const char magic[] = "# ftkit communication matrix ";
    static const char ranks[] = "# ranks: ", context[] = "# context: ";
    uint64_t n = 0;
    if (!next_line(s))
        return false;
    if (strncmp(s->line, magic, sizeof magic - 1) != 0)
        return wrong(s, "this is no communication matrix of ftkit (log.matrix)");
    if (strcmp(s->line + sizeof magic - 1, "1") != 0)
        return wrong(s, "a matrix of another version of ftkit");
    for (;;) {
        if (!next_line(s))
            return false;
        if (strcmp(s->line, "from,to,messages,bytes") == 0)
            break;
        if (*s->line != '#')
            return wrong(s, "the line with the names of the columns is missing");
        if (strncmp(s->line, context, sizeof context - 1) == 0)
            snprintf(
                m->context, sizeof m->context, "%s", ftk_tool_why(s->line + sizeof context - 1));
        if (strncmp(s->line, ranks, sizeof ranks - 1) == 0
            && (!number(s->line + sizeof ranks - 1, '\0', &n) || n < 1 || n > RANKS_MAX))
            return wrong(s, "this is no number of ranks");
    }
    m->n = (int)n;
    return n > 0 || wrong(s, "the number of ranks is missing");
}

static bool add_pair(struct source *s, struct ftk_matrix *m, const uint64_t v[4])
{
    const struct ftk_pair *last = m->npairs ? &m->pairs[m->npairs - 1] : NULL;
    struct ftk_pair p = { (int)v[0], (int)v[1], v[2], v[3] };
    if (last && (p.from < last->from || (p.from == last->from && p.to <= last->to)))
        return wrong(s, "the pair is not behind the one before it");
    if (p.from != p.to
        && (__builtin_add_overflow(m->messages, p.messages, &m->messages)
            || __builtin_add_overflow(m->bytes, p.bytes, &m->bytes) || m->bytes > INT64_MAX / 4))
        return wrong(s, "no job can have sent that much");
    m->pairs = ftk_tool_grow(m->pairs, m->npairs, &s->pairs_room, sizeof p);
    m->pairs[m->npairs++] = p;
    return true;
}

static bool read_pairs(struct source *s, struct ftk_matrix *m)
{
    char end[64];
    while (next_line(s)) {
        uint64_t v[4] = { 0 };
        const char *p = s->line;
        snprintf(end, sizeof end, "# end: %zu pairs", m->npairs);
        if (strcmp(s->line, end) == 0)
            return getc(s->f) == EOF || wrong(s, "the file goes on behind its end");
        if (strncmp(s->line, "# end", 5) == 0)
            return wrong(s, "there are %zu pairs and not as many as it says", m->npairs);
        for (int i = 0; i < 4 && p; i++)
            p = number(p, i < 3 ? ',' : '\0', &v[i]);
        if (!p || v[2] == 0)
            return wrong(s, "this is not 'from,to,messages,bytes'");
        if (v[0] >= (uint64_t)m->n || v[1] >= (uint64_t)m->n)
            return wrong(s, "there are %d ranks, and the line names another rank", m->n);
        if (!add_pair(s, m, v))
            return false;
    }
    return false;
}

int ftk_matrix_load(const char *path, struct ftk_matrix *m)
{
    struct source s = { .path = path, .f = fopen(path, "re") };
    *m = (struct ftk_matrix){ 0 };
    if (!s.f) {
        int err = errno;
        ftk_tool_say("%s: %s%s", ftk_tool_why(path), strerror(err),
            err == ENOENT ? "; a job with log.matrix writes such a file" : "");
        return TOOL_FAIL;
    }
    bool good = read_head(&s, m) && read_pairs(&s, m);
    free(s.line);
    fclose(s.f); /* read-only: no error to report */
    if (!good)
        ftk_matrix_free(m);
    return good ? TOOL_OK : TOOL_FAIL;
}

void ftk_matrix_free(struct ftk_matrix *m)
{
    free(m->pairs);
    *m = (struct ftk_matrix){ 0 };
}

struct ftk_cut ftk_matrix_cut(const struct ftk_matrix *m, const int *team)
{
    return ftk_team_cut_between(m->pairs, m->npairs, team);
}

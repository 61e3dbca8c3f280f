/* Writing JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>

#include "sets.h"

static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < ' ' || *p > '~')
            fprintf(out, "\\u%04x", *p); /* also bytes of unknown encoding */
        else
            fputc(*p, out);
    }
    fputc('"', out);
}

static void begin(struct ftk_json *j, const char *name)
{
    if (!j->first)
        fputc(',', j->out);
    if (j->depth > 0)
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    j->first = false;
    if (name) {
        quoted(j->out, name);
        fputs(": ", j->out);
    }
}

void ftk_json_open(struct ftk_json *j, const char *name, char bracket)
{
    if (j->depth == 0)
        j->first = true;
    begin(j, name);
    fputc(bracket, j->out);
    j->depth++;
    j->first = true;
}

void ftk_json_close(struct ftk_json *j, char bracket)
{
    j->depth--;
    if (!j->first)
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->out);
    j->first = false;
    if (j->depth == 0)
        fputc('\n', j->out);
}

void ftk_json_text(struct ftk_json *j, const char *name, const char *text)
{
    begin(j, name);
    quoted(j->out, text);
}

void ftk_json_uint(struct ftk_json *j, const char *name, uint64_t v)
{
    begin(j, name);
    fprintf(j->out, "%" PRIu64, v);
}

void ftk_json_int(struct ftk_json *j, const char *name, int64_t v)
{
    begin(j, name);
    fprintf(j->out, "%" PRId64, v);
}

void ftk_json_real(struct ftk_json *j, const char *name, double v)
{
    begin(j, name);
    fprintf(j->out, "%.9g", v);
}

void ftk_json_bool(struct ftk_json *j, const char *name, bool v)
{
    begin(j, name);
    fputs(v ? "true" : "false", j->out);
}

void ftk_json_null(struct ftk_json *j, const char *name)
{
    begin(j, name);
    fputs("null", j->out);
}

/* Memory and lists of strings of the ftkit program (see tools.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

void *ftk_tool_alloc(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) {
        fputs("ftkit: out of memory\n", stderr);
        exit(TOOL_FAIL);
    }
    return p;
}

char *ftk_tool_join(char **words)
{
    size_t bytes = 1;
    for (char **w = words; *w; w++)
        bytes += strlen(*w) + 1;
    char *line = ftk_tool_alloc(bytes);
    for (char **w = words; *w; w++) {
        strcat(line, *w);
        strcat(line, w[1] ? " " : "");
    }
    return line;
}

void *ftk_tool_grow(void *v, size_t n, size_t *room, size_t item)
{
    if (v && n < *room)
        return v;
    size_t larger = v ? 2 * *room : 64;
    void *all = ftk_tool_alloc(larger * item);
    if (v)
        memcpy(all, v, n * item);
    free(v);
    *room = larger;
    return all;
}

void ftk_list_add(struct ftk_list *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    size_t bytes = len < 0 ? 1 : (size_t)len + 1;
    char *text = ftk_tool_alloc(bytes);
    va_start(ap, fmt);
    vsnprintf(text, bytes, fmt, ap);
    va_end(ap);
    if (l->n + 1 >= l->room) {
        size_t room = l->room ? 2 * l->room : 32;
        char **v = ftk_tool_alloc(room * sizeof *v);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        free(l->v);
        l->v = v;
        l->room = room;
    }
    l->v[l->n++] = text;
}

bool ftk_list_has(const struct ftk_list *l, const char *text, size_t len)
{
    for (size_t i = 0; i < l->n; i++)
        if (strlen(l->v[i]) == len && strncmp(l->v[i], text, len) == 0)
            return true;
    return false;
}

void ftk_list_add_once(struct ftk_list *l, const char *text, size_t len)
{
    if (len > 0 && !ftk_list_has(l, text, len))
        ftk_list_add(l, "%.*s", (int)len, text);
}

void ftk_list_free(struct ftk_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
    *l = (struct ftk_list){ 0 };
}

/* The environment of a process as it began (see environment.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ftk_environment ftk_environment_of(long pid)
{
    struct ftk_environment e = { NULL, 0 };
    char path[40], chunk[4096];
    size_t n;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    FILE *in = fopen(path, "re");
    FILE *out = in ? open_memstream(&e.text, &e.bytes) : NULL;
    while (out && (n = fread(chunk, 1, sizeof chunk, in)) > 0)
        (void)fwrite(chunk, 1, n, out); /* fclose() reports an error */
    if (out)
        (void)fputc('\0', out);
    if (in)
        (void)fclose(in); /* only read from */
    if (out && fclose(out) == 0)
        return e;
    free(e.text);
    return (struct ftk_environment){ NULL, 0 };
}

void ftk_environment_free(struct ftk_environment *e)
{
    free(e->text);
    *e = (struct ftk_environment){ NULL, 0 };
}

const char *ftk_environment_get(const struct ftk_environment *e, const char *name)
{
    const size_t len = strcspn(name, "=");
    for (size_t at = 0; at < e->bytes; at += strlen(e->text + at) + 1)
        if (strncmp(e->text + at, name, len) == 0 && e->text[at + len] == '=')
            return e->text + at + len + 1;
    return NULL;
}

bool ftk_environment_has(const struct ftk_environment *e, const char *entry)
{
    const char *value = ftk_environment_get(e, entry), *own = strchr(entry, '=');
    return value && own && strcmp(value, own + 1) == 0;
}

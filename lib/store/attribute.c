/* Attributes: the table (see attribute.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "core/hash.h"

#define SUM_BYTES sizeof(uint64_t)

static uint64_t sum_of(const char *table, size_t bytes)
{
    return ftk_xxh3(table + SUM_BYTES, bytes - SUM_BYTES);
}

static void append(char **to, const char *text)
{
    size_t n = strlen(text) + 1;
    memcpy(*to, text, n);
    *to += n;
}

int ftk_attr_add(char **table, size_t *bytes, const struct ftk_attr *a)
{
    size_t old = *bytes > 0 ? *bytes : SUM_BYTES;
    size_t all = old + strlen(a->region) + strlen(a->name) + strlen(a->value) + 3;
    if (all > FTK_ATTR_TABLE_MAX)
        return ftk_fail(
            FTKIT_ERR_SIZE, "attributes: more than %zu bytes in all", FTK_ATTR_TABLE_MAX);
    char *t = realloc(*table, all);
    if (!t)
        return ftk_fail(FTKIT_ERR_NOMEM, "attributes: %zu bytes", all);
    char *to = t + old;
    append(&to, a->region);
    append(&to, a->name);
    append(&to, a->value);
    uint64_t sum = sum_of(t, all);
    memcpy(t, &sum, sizeof sum);
    *table = t;
    *bytes = all;
    return FTKIT_OK;
}

bool ftk_attr_check(const char *table, size_t bytes)
{
    uint64_t sum;
    size_t texts = 0;
    if (bytes <= SUM_BYTES || bytes > FTK_ATTR_TABLE_MAX || table[bytes - 1] != '\0')
        return false;
    memcpy(&sum, table, sizeof sum);
    for (size_t i = SUM_BYTES; i < bytes; i++)
        texts += table[i] == '\0';
    return texts % 3 == 0 && sum == sum_of(table, bytes);
}

static const char *text_at(const char *table, size_t *at)
{
    const char *text = table + *at;
    *at += strlen(text) + 1;
    return text;
}

bool ftk_attr_next(const char *table, size_t bytes, size_t *at, struct ftk_attr *a)
{
    if (*at == 0)
        *at = SUM_BYTES;
    if (*at >= bytes)
        return false;
    a->region = text_at(table, at);
    a->name = text_at(table, at);
    a->value = text_at(table, at);
    return true;
}

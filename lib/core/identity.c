/* The owner of sets and slots (see identity.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "hash.h"
#include "identity.h"

/* The file name of the executable; "" if it is not known. */
static void executable(char name[FTKIT_NAME_MAX + 1])
{
    char path[FTK_PATH_MAX];
    ftk_arguments_executable(path);
    const char *slash = strrchr(path, '/');
    snprintf(name, FTKIT_NAME_MAX + 1, "%.*s", FTKIT_NAME_MAX, slash ? slash + 1 : path);
    for (char *c = name; *c; c++) /* the characters that context.name allows */
        if (*c < ' ' || *c > '~')
            *c = '?';
}

void ftk_identity_find(struct ftk_identity *id, const char *program, const char *directory)
{
    char *real = realpath(directory, NULL);
    const char *path = real ? real : directory; /* no real path: the name as given */
    size_t n = strlen(path);
    memset(id, 0, sizeof *id);
    if (*program)
        snprintf(id->program, sizeof id->program, "%s", program);
    else
        executable(id->program);
    uint64_t hash = ftk_xxh3(path, n);
    id->home = hash > 1 ? hash : 2; /* 1 is in the names of older slots */
    snprintf(id->directory, sizeof id->directory, "%s",
        n < sizeof id->directory ? path : path + n - sizeof id->directory + 1);
    free(real);
}

bool ftk_identity_fits(const struct ftk_identity *id, const char *program, uint64_t home)
{
    bool same = !*program || !*id->program || strcmp(program, id->program) == 0;
    return same && (home == 0 || id->home == 0 || home == id->home);
}

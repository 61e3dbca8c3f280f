/* The variables of the environment that OpenSHMEM 1.4 names, and that of the thesis.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"

/* The second prefix is that of the time before 1.4. */
const char *ftk_shmem_variable(const char *what, char (*name)[FTK_SHMEM_VARIABLE_BYTES])
{
    const char *text = NULL;
    for (int i = 0; i < 2 && !text; i++) {
        snprintf(*name, sizeof *name, "%s_%s", i == 0 ? "SHMEM" : "SMA", what);
        text = getenv(*name);
    }
    return text;
}

/* The modes of the thesis: a copy at another PE, and with double an own one, too. */
static bool is_mode(const char *text)
{
    return strcmp(text, "single") == 0 || strcmp(text, "double") == 0;
}

void ftk_shmem_choose_backup(void)
{
    char name[FTK_SHMEM_VARIABLE_BYTES];
    const char *mode = ftk_shmem_variable("FT_BACKUP_MODE", &name);
    if (mode && is_mode(mode) && setenv("FTKIT_LEVEL_MEMORY_SCHEME", "buddy", 0) != 0)
        ftk_shmem_end("shmem_init: no memory");
}

static void say_backup(void)
{
    char name[FTK_SHMEM_VARIABLE_BYTES];
    const char *mode = ftk_shmem_variable("FT_BACKUP_MODE", &name);
    if (mode && !is_mode(mode))
        fprintf(stderr,
            "shmem: PE 0: warning: %s: '%s' is neither single nor double: level.memory.scheme is "
            "used alone\n",
            name, mode);
    else if (mode && strcmp(mode, "single") == 0)
        fprintf(stderr,
            "shmem: PE 0: %s=single: double is used: each PE has its own copy, too, so a set is of "
            "one moment\n",
            name);
}

static void describe(const char *what, const char *text)
{
    char name[FTK_SHMEM_VARIABLE_BYTES];
    const char *value = ftk_shmem_variable(what, &name);
    if (value)
        printf("shmem: %s=%s: %s\n", name, value, text);
    else
        printf("shmem: SHMEM_%s: %s\n", what, text);
}

void ftk_shmem_describe(void)
{
    char name[FTK_SHMEM_VARIABLE_BYTES];
    if (ftk_shmem_variable("VERSION", &name))
        printf("shmem: ftkit %d.%d.%d, OpenSHMEM %d.%d\n", FTKIT_VERSION_MAJOR, FTKIT_VERSION_MINOR,
            FTKIT_VERSION_PATCH, SHMEM_MAJOR_VERSION, SHMEM_MINOR_VERSION);
    if (ftk_shmem_variable("INFO", &name)) {
        describe("SYMMETRIC_SIZE", "the size of the heap of a PE, such as 512M; 64M when not set");
        describe("VERSION", "PE 0 prints the version of the library");
        describe("INFO", "PE 0 prints these lines");
        describe("DEBUG", "without effect");
        describe("FT_BACKUP_MODE", "single or double: a copy with a buddy (level.memory.scheme)");
    }
    fflush(stdout);
    say_backup();
}

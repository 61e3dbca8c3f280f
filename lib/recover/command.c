/* How a process of a program is started (see command.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The text is strings, each with its NUL: the numbers of arguments and variables, the directory,
 * the executable, the arguments, the variables. */
#define _GNU_SOURCE
#include "command.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arguments.h"
#include "core/environment.h"
#include "core/hash.h"
#include "core/run_state.h"

extern char **environ;

#define EXPORTS "FTKIT_RUN_EXPORTS" /* NAME,NAME*,... */

/* ---- variables ------------------------------------------------------------------------- */

static bool begins(const char *entry, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Variables that belong to one process, or that mpirun sets anew. */
static bool is_private(const char *entry)
{
    static const char *const names[] = { "FTKIT_SPAWNED=", "OMPI_", "OPAL_", "PMIX_", "PMI_",
        "PRTE_", "PWD=", "OLDPWD=", "SHLVL=", "HOSTNAME=", "_=", "FTKIT_RUN_EXPORTS=",
        "FTKIT_RUN_DIRECTORY=" };
    return begins(entry, names, sizeof names / sizeof *names);
}

static bool is_ours(const char *entry)
{
    static const char *const names[] = { "FTKIT_", "LD_PRELOAD=" };
    return begins(entry, names, sizeof names / sizeof *names) && !is_private(entry);
}

static bool is_exported(const char *entry)
{
    const size_t n = strcspn(entry, "=");
    for (const char *at = getenv(EXPORTS); at && *at; at += strcspn(at, ","), at += *at == ',') {
        const size_t len = strcspn(at, ",");
        const bool all = len > 0 && at[len - 1] == '*'; /* OMP_* */
        if ((all ? len - 1 <= n : len == n) && strncmp(at, entry, len - all) == 0)
            return true;
    }
    return false;
}

/* Whether the variables of -x are not known, and may be the difference of two programs. */
static bool is_started_by_hand(void)
{
    const char *parts = getenv("OMPI_NUM_APP_CTX");
    return !ftk_run_sees() && parts && atoi(parts) > 1;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* List the variables of this process that its command has; own: its environment as it began.  The
 * caller frees the array.  NULL: no memory. */
static const char **list_variables(
    const struct ftk_environment *own, const struct ftk_environment *daemon, int *n)
{
    size_t room = 1;
    const bool by_hand = is_started_by_hand();
    *n = 0;
    for (char **e = environ; *e; e++)
        room++;
    for (size_t at = 0; at < own->bytes; at += strlen(own->text + at) + 1)
        room++;
    const char **all = malloc(room * sizeof *all);
    if (!all)
        return NULL;
    for (char **e = environ; *e; e++)
        if (is_ours(*e))
            all[(*n)++] = *e;
    for (size_t at = 0; at < own->bytes; at += strlen(own->text + at) + 1) {
        const char *e = own->text + at;
        const bool set = by_hand && daemon->bytes > 0 && !ftk_environment_has(daemon, e);
        if (strchr(e, '=') && !is_private(e) && !is_ours(e) && (set || is_exported(e)))
            all[(*n)++] = e;
    }
    qsort(all, (size_t)*n, sizeof *all, by_text);
    return all;
}

/* ---- the text -------------------------------------------------------------------------- */

static void put(FILE *f, const char *text)
{
    (void)fwrite(text, 1, strlen(text) + 1, f); /* fclose() reports an error */
}

char *ftk_command_write(size_t *bytes)
{
    char executable[FTK_PATH_MAX], number[32], *text = NULL;
    size_t length = 0;
    int nargs = -1, nvariables = 0;
    const char *args = ftk_arguments(&length);
    struct ftk_environment own = ftk_environment_of((long)getpid());
    struct ftk_environment daemon = ftk_environment_of((long)getppid());
    const char **variables = list_variables(&own, &daemon, &nvariables);
    *bytes = 0;
    for (size_t i = 0; i < length; i++)
        nargs += args[i] == '\0';
    FILE *f = variables && nargs >= 0 ? open_memstream(&text, bytes) : NULL;
    if (f) {
        ftk_arguments_executable(executable);
        snprintf(number, sizeof number, "%d %d", nargs, nvariables);
        put(f, number);
        put(f, ftk_arguments_directory());
        put(f, executable);
        for (int i = 0; i < nargs; i++)
            put(f, args += strlen(args) + 1);
        for (int i = 0; i < nvariables; i++)
            put(f, variables[i]);
    }
    free(variables);
    ftk_environment_free(&own);
    ftk_environment_free(&daemon);
    if (f && fclose(f) == 0)
        return text;
    free(text);
    *bytes = 0;
    return NULL;
}

size_t ftk_command_read(const char *text, size_t bytes, struct ftk_command *c)
{
    char *rest = NULL;
    *c = (struct ftk_command){ .directory = "", .executable = "" };
    if (bytes == 0)
        return 0;
    const char *end = text + bytes;
    c->nargs = (int)strtol(text, &rest, 10);
    c->nvariables = (int)strtol(rest, NULL, 10);
    const size_t n = (size_t)c->nargs + (size_t)c->nvariables;
    c->words = calloc(n + 2, sizeof *c->words);
    if (!c->words) {
        c->nargs = c->nvariables = 0;
        return 0;
    }
    c->args = c->words;
    c->variables = c->words + c->nargs + 1;
    const char *at = text + strlen(text) + 1;
    c->directory = at;
    at += strlen(at) + 1;
    c->executable = at;
    at += strlen(at) + 1;
    for (size_t i = 0; i < n && at < end; i++, at += strlen(at) + 1)
        c->words[i + (i >= (size_t)c->nargs)] =
            (char *)at; /* MPI_Comm_spawn() takes no constants */
    return (size_t)(at - text);
}

/* The bytes of the command at the begin of text. */
static size_t length_of(const char *text)
{
    char *rest = NULL;
    const long arguments = strtol(text, &rest, 10), variables = strtol(rest, NULL, 10);
    size_t at = 0;
    for (long i = -3; i < arguments + variables; i++) /* behind numbers, directory, executable */
        at += strlen(text + at) + 1;
    return at;
}

void ftk_command_of(const char *all, size_t bytes, int k, struct ftk_command *c)
{
    size_t at = 0;
    for (int i = 0; i < k; i++)
        at += length_of(all + at);
    (void)ftk_command_read(all + at, bytes - at, c);
}

void ftk_command_free(struct ftk_command *c)
{
    free(c->words);
    *c = (struct ftk_command){ .directory = "", .executable = "" };
}

/* ---- what it is ------------------------------------------------------------------------ */

static const char *last_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *ftk_command_name(const struct ftk_command *c)
{
    return last_of(c->executable);
}

uint32_t ftk_command_executable(const struct ftk_command *c)
{
    const char *name = ftk_command_name(c);
    return (uint32_t)ftk_xxh3(name, strlen(name));
}

/* The next variable that is not of ftkit, from number *i on; NULL: there is none. */
static const char *foreign(const struct ftk_command *c, int *i)
{
    while (*i < c->nvariables && strncmp(c->variables[*i], "FTKIT_", 6) == 0)
        (*i)++;
    return *i < c->nvariables ? c->variables[(*i)++] : NULL;
}

uint32_t ftk_command_hash(const struct ftk_command *c)
{
    const char *directory = last_of(c->directory), *variable;
    uint64_t h = ftk_xxh3_seed(directory, strlen(directory), ftk_command_executable(c));
    for (int i = 0; i < c->nargs; i++)
        h = ftk_xxh3_seed(c->args[i], strlen(c->args[i]) + 1, h);
    for (int i = 0; (variable = foreign(c, &i));)
        h = ftk_xxh3_seed(variable, strlen(variable) + 1, h);
    return (uint32_t)h;
}

bool ftk_command_same(const struct ftk_command *a, const struct ftk_command *b)
{
    bool same = *a->executable && strcmp(a->executable, b->executable) == 0
                && strcmp(a->directory, b->directory) == 0 && a->nargs == b->nargs;
    for (int i = 0; same && i < a->nargs; i++)
        same = strcmp(a->args[i], b->args[i]) == 0;
    for (int i = 0, j = 0; same;) {
        const char *x = foreign(a, &i), *y = foreign(b, &j);
        if (!x && !y)
            break;
        same = x && y && strcmp(x, y) == 0;
    }
    return same;
}

/* ---- spawning -------------------------------------------------------------------------- */

bool ftk_command_goes(const struct ftk_command *c)
{
    return strlen(c->directory) >= MPI_MAX_INFO_VAL;
}

/* env sets the variables: a value of an MPI_Info is too short for them. */
char **ftk_command_spawn(const struct ftk_command *c, char *extra, const char **command)
{
    static char none[] = "/nonexistent", change[] = "-C";
    size_t at = 0;
    char *program = *c->executable ? (char *)c->executable : none;
    char **all = calloc((size_t)c->nargs + (size_t)c->nvariables + 5, sizeof *all);
    const bool goes = ftk_command_goes(c);
    const bool plain = (c->nvariables == 0 && !extra && !goes)
                       || strchr(program, '=') != NULL; /* env would take it for a variable */
    *command = plain ? program : "/usr/bin/env";
    if (!all)
        return NULL;
    if (!plain && goes) {
        all[at++] = change;
        all[at++] = (char *)c->directory; /* MPI_Comm_spawn() takes no constants */
    }
    for (int i = 0; !plain && i < c->nvariables; i++)
        all[at++] = c->variables[i];
    if (!plain && extra)
        all[at++] = extra;
    if (!plain)
        all[at++] = program;
    for (int i = 0; i < c->nargs; i++)
        all[at++] = c->args[i];
    return all;
}

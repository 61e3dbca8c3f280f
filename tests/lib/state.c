/* Checks that closing a context resets the state of the message log as a whole: all file-scope
 * variables of lib/log, and the global ones of the library, have their first values again.  The
 * variables come from the symbol table of the program, so a new variable is checked without a new
 * line here.
 *
 * LOG_FILES (Makefile): the names of the sources of lib/log, between colons.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detect/detect.h"
#include "state.h"

/* Variables that outlive a context, and why. */
static const char *const kept[][2] = {
    { "a header", "ftk_req_pool" }, /* address space, reserved once in a process */
    { "unexpected.c", "matches" },  /* a number is not used again for another message */
    { "sender_log.c", "warned" },   /* the warning comes once in a process */
    { "object.c", "ops" },          /* of persistent collectives that the program has not freed */
    { "object.c", "types" },        /* the same */
    { "request.c", "late" },      /* types of persistent requests that the program has not freed */
    { "request.c", "late_room" }, /* the same */
    { "request.c", "nlate" },     /* the same */
    { "wait.c", "turns" },        /* when a call looks for failures: any number is right */
    { "probe.c", "turns" },       /* the same */
    { "progress.c", "p" },        /* of lib/core/progress.c */
    { "a header", "ftk_memory_others" }, /* a fact of the process */
    { "a header", "ftk_mpi_call" },      /* the name of the last call, for texts */
    { "a header", "ftk_layer_foreign" }, /* requests of the MPI, with and without a context */
    { "a header", "ftk_layer_frees" },   /* memory that a program frees behind ftkit_close() */
};

struct variable {
    const char *file, *name;
    const char *at;
    size_t bytes;
    char *first; /* [bytes] value when the program began */
};

static struct variable *variables;
static size_t nvariables;

/* Compilers call a static variable of a function name.NUMBER or function.name. */
static bool is_part(const char *part, const char *name)
{
    size_t n = strlen(part);
    const char *last = strrchr(name, '.');
    return strcmp(name, part) == 0 || (strncmp(name, part, n) == 0 && name[n] == '.')
           || (last && strcmp(last + 1, part) == 0);
}

static bool is_kept(const char *file, const char *name)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strcmp(file, kept[i][0]) == 0 && is_part(kept[i][1], name))
            return true;
    return false;
}

static bool is_of_log(const char *file)
{
    char name[256];
    snprintf(name, sizeof name, ":%s:", file);
    return strstr(LOG_FILES, name) != NULL;
}

static void add(const char *file, const char *name, const char *at, size_t bytes)
{
    struct variable *v = realloc(variables, (nvariables + 1) * sizeof *v);
    char *first = malloc(bytes);
    if (!v || !first)
        abort();
    memcpy(first, at, bytes);
    variables = v;
    variables[nvariables++] = (struct variable){ file, name, at, bytes, first };
}

/* The program may have files with the same names, and other libraries have variables without a
 * file.  The variables of ftkit lie in memory between these two and those of state_end.c, because
 * ftkit is linked between them. */
volatile char state_mark_data = 1, state_mark_bss;

static const Elf64_Sym *symbol(const char *name, const Elf64_Sym *s, size_t n, const char *names)
{
    for (size_t i = 0; i < n; i++)
        if (s[i].st_shndx != SHN_UNDEF && strcmp(names + s[i].st_name, name) == 0)
            return &s[i];
    abort();
}

static bool is_between(const Elf64_Sym *s, const Elf64_Sym *mark, const Elf64_Sym *end)
{
    return s->st_shndx == mark->st_shndx && s->st_value > mark->st_value
           && s->st_value < end->st_value;
}

/* Local symbols follow the symbol of their source, but for the global ones of the library, which
 * some linkers make local. */
static void list_symbols(
    const char *elf, const Elf64_Shdr *table, const Elf64_Shdr *sections, const char *base)
{
    const Elf64_Sym *s = (const void *)(elf + table->sh_offset);
    const size_t n = table->sh_size / sizeof *s;
    const char *names = elf + sections[table->sh_link].sh_offset, *file = "";
    const Elf64_Sym *data = symbol("state_mark_data", s, n, names);
    const Elf64_Sym *bss = symbol("state_mark_bss", s, n, names);
    const Elf64_Sym *data_end = symbol("state_end_data", s, n, names);
    const Elf64_Sym *bss_end = symbol("state_end_bss", s, n, names);
    for (size_t i = 0; i < n; i++, s++) {
        const char *name = names + s->st_name;
        const bool global = strncmp(name, "ftk_", 4) == 0;
        if (ELF64_ST_TYPE(s->st_info) == STT_FILE)
            file = name;
        if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT
            || !(is_between(s, data, data_end) || is_between(s, bss, bss_end)))
            continue;
        if (global || is_of_log(file))
            add(global ? "a header" : file, name, base + s->st_value, s->st_size);
    }
}

static int take_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(const char **)base = (const char *)info->dlpi_addr;
    return 1; /* the first one is the program */
}

__attribute__((constructor)) static void remember_state(void)
{
    struct stat st;
    const char *base = NULL;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    const char *elf = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (elf == MAP_FAILED)
        abort();
    close(fd);
    dl_iterate_phdr(take_base, &base);
    const Elf64_Ehdr *head = (const void *)elf;
    const Elf64_Shdr *sections = (const void *)(elf + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            list_symbols(elf, &sections[i], sections, base);
}

void check_state(void)
{
    if (strlen(LOG_FILES) <= 2) /* a build without the log */
        return;
    if (ftk_detect_first()) /* a context is open: MPI_Finalize closes it after this */
        return;
    for (size_t i = 0; i < nvariables; i++) {
        const struct variable *v = &variables[i];
        if (!is_kept(v->file, v->name) && memcmp(v->at, v->first, v->bytes) != 0)
            fprintf(stderr, "handles: %s: %s has not been reset\n", v->file, v->name);
    }
    if (nvariables < 20)
        fprintf(stderr, "handles: the variables of the log are not found\n");
}

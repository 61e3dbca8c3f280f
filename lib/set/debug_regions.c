/* Variables that a rollback has not restored (see debug_regions.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Names come from the symbol table of /proc/self/exe.  A program that is linked with the static
 * library contains ftkit's own variables, which are not reported.  A global variable of ftkit is
 * known by its prefix, a static one by the name of its file (FTK_OWN_FILES, from the Makefile). */
#define _GNU_SOURCE
#include "debug_regions.h"
#include "region.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 8
#define NAMES_MAX 20 /* variables that are reported after a rollback */

enum when { AT_START, AT_LINE, WHENS };

/* A writable segment of the executable, and its bytes at the end of ftkit_recover() and at the
 * line. */
struct segment {
    const char *at;
    size_t bytes;
    char *copy[WHENS];
};

/* Only one context of a process repairs, so there is only one line. */
static struct {
    const struct ftkit_ctx *ctx; /* NULL: there is no line */
    uint64_t set;
    uintptr_t base; /* added to the addresses of the file */
    struct segment seg[SEGMENTS_MAX];
    int nsegs;
} line;

/* ---- the line ------------------------------------------------------------------------ */

/* dl_iterate_phdr() begins with the executable; 1 ends the iteration before the shared
 * libraries. */
static int on_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    (void)bytes;
    (void)arg;
    line.base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum && line.nsegs < SEGMENTS_MAX; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD && (ph->p_flags & PF_W))
            line.seg[line.nsegs++] = (struct segment){ (const char *)(line.base + ph->p_vaddr),
                ph->p_memsz, { NULL, NULL } };
    }
    return 1;
}

static void forget(void)
{
    for (int i = 0; i < line.nsegs; i++)
        for (int w = 0; w < WHENS; w++)
            free(line.seg[i].copy[w]);
    memset(&line, 0, sizeof line);
}

static void copy_segments(const struct ftkit_ctx *ctx, enum when when)
{
    if (ctx->cfg.debug_check != FTK_DEBUG_REGIONS || ctx->mode == FTKIT_MODE_RESTART)
        return;
    if (!line.ctx)
        (void)dl_iterate_phdr(on_object, NULL); /* always 1, from on_object() */
    line.ctx = ctx;
    for (int i = 0; i < line.nsegs; i++) {
        struct segment *s = &line.seg[i];
        if (!s->copy[when])
            s->copy[when] = malloc(s->bytes);
        if (!s->copy[when]) {
            ftk_report(FTKIT_WARNING, "debug.check: no memory for %zu bytes", s->bytes);
            forget();
            return;
        }
        memcpy(s->copy[when], s->at, s->bytes);
    }
}

void ftk_debug_start(const struct ftkit_ctx *ctx)
{
    copy_segments(ctx, AT_START);
}

void ftk_debug_line(const struct ftkit_ctx *ctx)
{
    copy_segments(ctx, AT_LINE);
    line.set = line.ctx ? ctx->committed : 0;
}

/* ---- memory that a rollback restores --------------------------------------------------- */

struct span {
    const char *at;
    size_t bytes;
};

/* From the first byte of a region to its last, halo included. */
static struct span span_of(const struct ftk_region *r)
{
    size_t items = r->ndims > 0 ? 1 : r->count;
    for (int d = 0; d < r->ndims; d++)
        items *= r->local[d] + 2 * r->halo[d];
    const char *first = (const char *)r->data + r->type.span_lb;
    size_t bytes = (size_t)(r->type.span_end - r->type.span_lb);
    return (struct span){ first, items ? (items - 1) * (size_t)r->type.extent + bytes : 0 };
}

/* List the memory of the regions, and the variables that a repair sets; the caller frees the
 * list. */
static struct span *known_spans(const struct ftkit_ctx *ctx, size_t *n)
{
    struct span *s = calloc(2 * (size_t)ctx->regions.n + (size_t)ctx->nbound + 1, sizeof *s);
    *n = 0;
    if (!s)
        return NULL;
    for (int i = 0; i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        const struct ftk_region_variables *v = ftk_region_variables(r);
        if (v) {
            s[(*n)++] = (struct span){ (const char *)v->data, sizeof *v->data };
            s[(*n)++] = (struct span){ (const char *)v->count, sizeof *v->count };
        } else if (r->box.bytes > 0) {
            s[(*n)++] = (struct span){ r->arg, r->box.bytes };
        } else if (r->data) {
            s[(*n)++] = span_of(r);
        } else if (r->system && r->system->variables) {
            const void *at;
            size_t bytes;
            r->system->variables(r->arg, &at, &bytes);
            s[(*n)++] = (struct span){ at, bytes };
        } else if (r->arg) { /* the first bytes */
            s[(*n)++] = (struct span){ r->arg, sizeof(void *) };
        }
    }
    for (int i = 0; i < ctx->nbound; i++)
        s[(*n)++] = ctx->bound[i].c
                        ? (struct span){ (const char *)ctx->bound[i].c, sizeof(MPI_Comm) }
                        : (struct span){ (const char *)ctx->bound[i].fortran, sizeof(MPI_Fint) };
    return s;
}

/* Return how many bytes from at on lie in a known span; 0: at lies in none. */
static size_t known_at(const struct span *s, size_t n, const char *at)
{
    for (size_t i = 0; i < n; i++)
        if (at >= s[i].at && at < s[i].at + s[i].bytes)
            return (size_t)(s[i].at + s[i].bytes - at);
    return 0;
}

/* ---- comparing ----------------------------------------------------------------------- */

/* Count the bytes of [at, at + bytes) that differ from the copy and lie in no known span. */
static size_t count_changed(
    const struct span *s, size_t n, const char *at, size_t bytes, enum when since)
{
    for (int i = 0; i < line.nsegs; i++) {
        const struct segment *g = &line.seg[i];
        if (at < g->at || at >= g->at + g->bytes || bytes > (size_t)(g->at + g->bytes - at))
            continue;
        const char *was = g->copy[since] + (at - g->at);
        size_t changed = 0;
        if (memcmp(at, was, bytes) == 0)
            return 0;
        for (size_t b = 0; b < bytes;) {
            size_t skip = at[b] != was[b] ? known_at(s, n, at + b) : 1;
            changed += skip == 0;
            b += skip ? skip : 1;
        }
        return changed;
    }
    return 0;
}

/* Whether a variable is ftkit's own, the C library's, or the linker's: C reserves names that begin
 * with two underscores, or with one and a capital letter. */
static bool is_own(const char *name, const char *file)
{
    static const char files[] = " " FTK_OWN_FILES " ";
    char word[128];
    if (name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z')))
        return true;
    if (strncmp(name, "ftk_", 4) == 0 || strncmp(name, "ftkit_", 6) == 0 || strchr(name, '@'))
        return true;
    int n = snprintf(word, sizeof word, " %s ", file);
    return *file && n > 0 && (size_t)n < sizeof word && strstr(files, word);
}

/* Whether the linker has copied a variable of a shared library into the executable because the
 * program names the variable (such as the object that MPI_COMM_WORLD stands for). */
static bool is_copied(const char *name, size_t bytes)
{
    Dl_info info;
    void *extra = NULL;
    void *other = dlsym(RTLD_NEXT, name);
    if (!other || dladdr1(other, &info, &extra, RTLD_DL_SYMENT) == 0 || !extra)
        return false;
    const ElfW(Sym) *sym = extra;
    return ELF64_ST_TYPE(sym->st_info) == STT_OBJECT && sym->st_size == bytes;
}

/* Find the symbol table of a mapped file; false: there is no usable table. */
static bool find_symbols(const char *file, size_t bytes, const ElfW(Sym) * *sym, size_t *n,
    const char **names, size_t *names_bytes)
{
    const ElfW(Ehdr) *eh = (const void *)file;
    if (bytes < sizeof *eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0
        || eh->e_shentsize != sizeof(ElfW(Shdr)) || eh->e_shoff > bytes
        || eh->e_shnum > (bytes - eh->e_shoff) / sizeof(ElfW(Shdr)))
        return false;
    const ElfW(Shdr) *sh = (const void *)(file + eh->e_shoff);
    for (int i = 0; i < eh->e_shnum; i++) {
        if (sh[i].sh_type != SHT_SYMTAB || sh[i].sh_link >= eh->e_shnum)
            continue;
        const ElfW(Shdr) *text = &sh[sh[i].sh_link];
        if (sh[i].sh_offset > bytes || sh[i].sh_size > bytes - sh[i].sh_offset
            || text->sh_offset > bytes || text->sh_size > bytes - text->sh_offset
            || text->sh_size == 0 || file[text->sh_offset + text->sh_size - 1] != '\0')
            return false;
        *sym = (const void *)(file + sh[i].sh_offset);
        *n = sh[i].sh_size / sizeof **sym;
        *names = file + text->sh_offset;
        *names_bytes = text->sh_size;
        return true;
    }
    return false;
}

/* A variable that is as at the line, and not as at the end of ftkit_recover(), has kept its value
 * in this process; a replacement begins with the other one. */
static void report(const struct ftkit_ctx *ctx, const char *name, const char *file, size_t changed,
    size_t bytes, enum when since)
{
    char than[64];
    snprintf(than, sizeof than, "those of set %llu", (unsigned long long)line.set);
    if (since == AT_START)
        snprintf(than, sizeof than, "those that a replacement begins with");
    ftk_report(FTKIT_WARNING,
        "context %s: rank %d: debug.check: %s%s%s has %zu of %zu bytes that are not %s, and is in "
        "no region: register it if the loop needs it",
        ctx->cfg.name, ctx->rank, name, *file ? " of " : "", file, changed, bytes, than);
}

/* Report each variable that has changed; false: there is no symbol table. */
static bool compare(const struct ftkit_ctx *ctx, const char *exe, size_t bytes)
{
    const ElfW(Sym) * sym;
    const char *names, *file = "";
    size_t nsyms, names_bytes, nknown = 0;
    int named = 0;
    if (!find_symbols(exe, bytes, &sym, &nsyms, &names, &names_bytes))
        return false;
    struct span *known = known_spans(ctx, &nknown);
    for (size_t i = 0; known && i < nsyms; i++) {
        const char *name = sym[i].st_name < names_bytes ? names + sym[i].st_name : "";
        bool local = ELF64_ST_BIND(sym[i].st_info) == STB_LOCAL;
        if (ELF64_ST_TYPE(sym[i].st_info) == STT_FILE)
            file = name;
        if (ELF64_ST_TYPE(sym[i].st_info) != STT_OBJECT || sym[i].st_shndx == SHN_UNDEF
            || is_own(name, local ? file : ""))
            continue;
        const char *at = (const char *)(line.base + sym[i].st_value);
        enum when since = AT_LINE;
        size_t changed = count_changed(known, nknown, at, sym[i].st_size, since);
        if (changed == 0)
            changed = count_changed(known, nknown, at, sym[i].st_size, since = AT_START);
        if (changed == 0 || (!local && is_copied(name, sym[i].st_size)) || named++ >= NAMES_MAX)
            continue;
        report(ctx, name, local ? file : "", changed, sym[i].st_size, since);
    }
    free(known);
    ftk_report(named > NAMES_MAX ? FTKIT_WARNING : FTKIT_INFO,
        "context %s: rank %d: debug.check: %d variables differ after the rollback to set %llu",
        ctx->cfg.name, ctx->rank, named, (unsigned long long)line.set);
    return true;
}

static void compare_with_exe(const struct ftkit_ctx *ctx)
{
    struct stat st;
    bool good = false;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        char *exe = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (exe != MAP_FAILED) {
            good = compare(ctx, exe, (size_t)st.st_size);
            (void)munmap(exe, (size_t)st.st_size); /* it is only read */
        }
    }
    if (fd >= 0)
        (void)close(fd);
    if (!good)
        ftk_report(FTKIT_WARNING,
            "context %s: debug.check: the program has no table of symbols, so nothing is "
            "compared; link it without -s",
            ctx->cfg.name);
}

void ftk_debug_rolled_back(const struct ftkit_ctx *ctx, uint64_t set)
{
    if (line.ctx != ctx)
        return; /* no line here: the process is a replacement, or does not check */
    if (line.set == set)
        compare_with_exe(ctx);
}

void ftk_debug_close(const struct ftkit_ctx *ctx)
{
    if (line.ctx == ctx)
        forget();
}

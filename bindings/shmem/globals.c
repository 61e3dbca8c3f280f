/* The global and static variables of the program as symmetric memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program is linked at a fixed address (-no-pie), so its variables have the same addresses on
 * all PEs, and so have pointers to them.  They are in the writable segments of the executable.
 * There are also words that the dynamic linker writes: addresses of libraries, which are others in
 * each process, and variables of libraries that the linker has copied, such as stdout.  These
 * words are left out. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "own.h"

#if defined(__x86_64__)
#define COPIED R_X86_64_COPY
#elif defined(__aarch64__)
#define COPIED R_AARCH64_COPY
#elif defined(__powerpc64__)
#define COPIED R_PPC64_COPY
#elif defined(__riscv)
#define COPIED R_RISCV_COPY
#else
#define COPIED 0 /* not known: shmem_init() ends the job */
#endif

struct range {
    uintptr_t from, to;
};
struct ranges {
    struct range *r; /* [n] */
    size_t n, room;
};

static struct ranges data, left_out; /* in rising order, when data is complete */

static void add(struct ranges *all, uintptr_t from, uintptr_t to)
{
    if (from >= to)
        return;
    if (all->n == all->room) {
        all->room = all->room ? 2 * all->room : 64;
        all->r = realloc(all->r, all->room * sizeof *all->r);
        if (!all->r)
            ftk_shmem_end("shmem_init: no memory");
    }
    all->r[all->n++] = (struct range){ from, to };
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = ((const struct range *)a)->from, y = ((const struct range *)b)->from;
    return x < y ? -1 : x > y;
}

/* ---- words of the dynamic linker ------------------------------------------------------- */

static void leave_out(const ElfW(Rela) * rela, size_t bytes, const ElfW(Sym) * symbols)
{
    for (size_t i = 0; i < bytes / sizeof *rela; i++) {
        const bool copied = ELF64_R_TYPE(rela[i].r_info) == COPIED;
        const size_t n =
            copied && symbols ? symbols[ELF64_R_SYM(rela[i].r_info)].st_size : sizeof(void *);
        add(&left_out, rela[i].r_offset, rela[i].r_offset + n);
    }
}

static void read_dynamic(const ElfW(Dyn) * d)
{
    const ElfW(Rela) *rela = NULL, *calls = NULL;
    const ElfW(Sym) *symbols = NULL;
    size_t rela_bytes = 0, calls_bytes = 0;
    for (; d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)d->d_un.d_ptr;
        switch (d->d_tag) {
        case DT_RELA:
            rela = at;
            break;
        case DT_RELASZ:
            rela_bytes = d->d_un.d_val;
            break;
        case DT_JMPREL:
            calls = at;
            break;
        case DT_PLTRELSZ:
            calls_bytes = d->d_un.d_val;
            break;
        case DT_SYMTAB:
            symbols = at;
            break;
        case DT_PLTGOT: /* three words of the dynamic linker */
            add(&left_out, (uintptr_t)at, (uintptr_t)at + 3 * sizeof(void *));
            break;
        default:
            break;
        }
    }
    if (rela)
        leave_out(rela, rela_bytes, symbols);
    if (calls)
        leave_out(calls, calls_bytes, symbols);
}

/* dl_iterate_phdr() begins with the executable; 1 ends the iteration. */
static int on_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct ranges *all = arg;
    (void)bytes;
    if (info->dlpi_addr != 0)
        ftk_shmem_end("shmem_init: the variables of the program have another address in each "
                      "process: link with -no-pie, as pkg-config ftkit-shmem says");
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t end = p->p_vaddr + p->p_memsz;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W))
            add(all, p->p_vaddr, end);
        else if (p->p_type == PT_GNU_RELRO || p->p_type == PT_DYNAMIC)
            add(&left_out, p->p_vaddr, end);
        if (p->p_type == PT_DYNAMIC)
            read_dynamic((const ElfW(Dyn) *)p->p_vaddr);
    }
    return 1;
}

/* ---- what is left ---------------------------------------------------------------------- */

/* The page of the end of RELRO is read-only, too, so the range may end inside a page: the linker
 * has aligned it. */
static void subtract(const struct range *segment)
{
    uintptr_t at = segment->from;
    for (size_t i = 0; i < left_out.n && at < segment->to; i++) {
        const struct range *o = &left_out.r[i];
        if (o->to <= at || o->from >= segment->to)
            continue;
        add(&data, at, o->from);
        at = o->to > at ? o->to : at;
    }
    add(&data, at, segment->to);
}

void ftk_shmem_globals_open(void)
{
    struct ranges segments = { 0 };
    const uintptr_t own = (uintptr_t)&ftk_shmem;
    if (COPIED == 0)
        ftk_shmem_end(
            "shmem_init: which variables are of libraries is not known on this processor");
    (void)dl_iterate_phdr(on_object, &segments); /* always 1, from on_object() */
    if (segments.n == 0)
        ftk_shmem_end("shmem_init: the program has no variables");
    qsort(segments.r, segments.n, sizeof *segments.r, by_address);
    qsort(left_out.r, left_out.n, sizeof *left_out.r, by_address);
    for (size_t i = 0; i < segments.n; i++) {
        if (own >= segments.r[i].from && own < segments.r[i].to)
            ftk_shmem_end("shmem_init: link with the shared libraries of ftkit: variables of the "
                          "static ones cannot be told from those of the program");
        subtract(&segments.r[i]);
    }
    const uintptr_t from = segments.r[0].from, to = segments.r[segments.n - 1].to;
    ftk_shmem.seg[FTK_SHMEM_GLOBALS] =
        (struct ftk_shmem_segment){ (char *)from, to - from, MPI_WIN_NULL };
    free(segments.r);
    free(left_out.r);
    left_out = (struct ranges){ 0 };
}

int ftk_shmem_globals_register(ftkit_ctx *ft)
{
    char name[FTKIT_NAME_MAX + 1];
    int rc = FTKIT_OK;
    for (size_t i = 0; rc == FTKIT_OK && i < data.n; i++) {
        snprintf(name, sizeof name, "shmem.globals.%zu", i);
        const struct range *r = &data.r[i];
        rc = ftkit_register(ft, name, (void *)r->from, r->to - r->from, MPI_BYTE);
    }
    free(data.r);
    data = (struct ranges){ 0 };
    return rc;
}

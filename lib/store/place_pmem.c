/* The place pmem: persistent memory by libpmem; place_pmem_none.c in a build without it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A context with this place loads libpmem.  Other processes start faster without libpmem, which
 * brings five further libraries. */
#include <dlfcn.h>
#include <errno.h>
#include <libpmem.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/symbol.h"
#include "place_ops.h"

#define TEXT(version) #version
#define LIBRARY(version) "libpmem.so." TEXT(version)

/* The functions of the library, which stays loaded: slots may outlive their context. */
static struct {
    __typeof__(&pmem_map_file) map_file;
    __typeof__(&pmem_unmap) unmap;
    __typeof__(&pmem_persist) persist;
    __typeof__(&pmem_msync) msync;
} pmem;

static char why[512]; /* why the library cannot be used; empty: it can be used */

static void load_once(void)
{
    void *library = dlopen(LIBRARY(PMEM_MAJOR_VERSION), RTLD_NOW | RTLD_LOCAL);
    if (library && ftk_symbol_find(library, "pmem_map_file", &pmem.map_file)
        && ftk_symbol_find(library, "pmem_unmap", &pmem.unmap)
        && ftk_symbol_find(library, "pmem_persist", &pmem.persist)
        && ftk_symbol_find(library, "pmem_msync", &pmem.msync))
        return;
    const char *said = dlerror();
    snprintf(why, sizeof why, "%s (package libpmem1 of Debian, libpmem of Fedora, pmdk of Spack)",
        said ? said : "libpmem cannot be loaded");
    if (library)
        (void)dlclose(library); /* a library that stays loaded does no harm */
}

static const char *load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load_once); /* it returns 0 always */
    return *why ? why : NULL;
}

static char *map(int fd, const char *path, size_t bytes, bool *direct)
{
    size_t mapped = 0;
    int is_pmem = 0;
    (void)fd;
    if (load()) { /* ftk_place_check() has said why */
        errno = ENOTSUP;
        return NULL;
    }
    char *p = pmem.map_file(path, 0, 0, 0, &mapped, &is_pmem);
    if (p && mapped < bytes) {
        (void)pmem.unmap(p, mapped);
        errno = EINVAL;
        return NULL;
    }
    *direct = is_pmem != 0; /* stores reach the memory without the kernel */
    return p;
}

static void unmap(char *at, size_t bytes)
{
    (void)pmem.unmap(at, bytes); /* if this fails the mapping stays, and no data are lost */
}

static int persist(const void *at, size_t bytes, bool direct)
{
    if (direct) {
        pmem.persist(at, bytes);
        return 0;
    }
    return pmem.msync(at, bytes) == 0 ? 0 : errno;
}

extern const struct ftk_place_ops ftk_place_pmem;
const struct ftk_place_ops ftk_place_pmem = {
    .load = load, .map = map, .unmap = unmap, .persist = persist
};

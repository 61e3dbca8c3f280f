/* libftkit_mpi: finding it, and checking what stands in front of it (see layer.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "core/run_state.h"
#include "log/base/find_layer.h"
#include "log/base/layer.h"
#include "log/base/part.h"

static const struct ftk_mpi_layer *layer;
static const struct ftk_mpi_calls *open_calls; /* where calls go that may be made */

const struct ftk_mpi_layer *ftk_layer(void)
{
    return layer;
}

void ftk_layer_set_frees(bool (*frees)(void *base))
{
    *layer->frees = frees;
}

static const char *object_of(const void *at)
{
    Dl_info info;
    return dladdr(at, &info) && info.dli_fname ? info.dli_fname : "an unknown object";
}

/* Where calls of a name go.  NULL: the program does not show its definition, or has only a way to
 * call it (a non-PIE program that uses its address). */
static void *definition(const char *name)
{
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    void *at = dlsym(RTLD_DEFAULT, name);
    if (at && dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol
        && symbol->st_shndx == SHN_UNDEF)
        return NULL;
    return at;
}

/* Whether calls of a function come to the layer, or a tool in front of it forwards them there. */
static int check_one(const struct ftk_layer_function *f)
{
    char name[72];
    void *at = definition(f->name), *mine = NULL, *mine_p = NULL;
    memcpy(&mine, &f->mine, sizeof mine);
    memcpy(&mine_p, &f->mine_p, sizeof mine_p);
    if (!at || at == mine)
        return FTKIT_OK;
    snprintf(name, sizeof name, "P%s", f->name);
    void *forwarded = definition(name);
    if (mine_p && (!forwarded || forwarded == mine_p))
        return FTKIT_OK;
    if (forwarded == at)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "%s goes to the MPI (%s) past libftkit_mpi (%s), and the message log would miss it: "
            "link libftkit_mpi before MPI, or start the job with ftkit run --log",
            f->name, object_of(at), object_of(mine));
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "%s of %s stands in front of libftkit_mpi (%s) and forwards to %s of %s, so the message "
        "log would miss it: use the shared libftkit_mpi, and link or preload it before MPI "
        "(docs/profilers.md)",
        f->name, object_of(at), object_of(mine), name, object_of(forwarded));
}

int ftk_layer_check(void)
{
    int rc = FTKIT_OK;
    bool other = false;
    layer = ftk_layer_find(&other);
    if (other)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "log.enabled: libftkit_mpi is of another build than libftkit: use those of one "
            "installation");
    if (!layer)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "log.enabled needs libftkit_mpi between the program and MPI: link it before MPI, "
            "or start it with ftkit run --log, which preloads it");
    for (size_t i = 0; rc == FTKIT_OK && i < layer->nfunctions; i++)
        rc = check_one(&layer->functions[i]);
    if (rc != FTKIT_OK)
        return rc;
    if (layer->real)
        ftk_mpi_real = *layer->real;
    /* with tools behind the layer it sends the calls through them first */
    *layer->tools = layer->real && memcmp(layer->real, layer->behind, sizeof *layer->real) != 0;
    return FTKIT_OK;
}

/* Send the program's calls to the log. */
static int start(void)
{
    int level = MPI_THREAD_MULTIPLE; /* if the MPI does not say */
    (void)PMPI_Query_thread(&level);
    open_calls = level == MPI_THREAD_MULTIPLE ? &ftk_mpi_guarded : &ftk_mpi_calls;
    *layer->calls = open_calls;
    return FTKIT_OK;
}

void ftk_layer_guard(bool on)
{
    if (*layer->calls)
        *layer->calls = on ? &ftk_mpi_guarded : open_calls;
}

/* ... and to the MPI again. */
static void stop(void)
{
    *layer->calls = NULL;
}

/* The layer has to be found again. */
static void close_layer(void)
{
    layer = NULL;
    open_calls = NULL;
}

/* The call has gone to other processes, or nowhere: the job cannot go on. */
void ftk_mpi_lost(const char *call, void (*tool)(void))
{
    void *at = NULL;
    memcpy(&at, &tool, sizeof at);
    ftk_report(FTKIT_ERROR,
        "rank %d: %s of %s stands behind libftkit_mpi and has not called P%s: the message log has "
        "missed a call, and the job ends: put the tool in front of libftkit_mpi, or leave it out "
        "(docs/profilers.md)",
        ftk_log.me, call, object_of(at), call);
    ftk_run_state("mistake %s of %s goes past the message log", call, object_of(at));
    (void)MPI_Abort(MPI_COMM_WORLD, 1); /* does not return */
}

const struct ftk_part ftk_part_layer = { .start = start, .stop = stop, .close = close_layer };

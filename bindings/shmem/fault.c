/* The four calls about failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Source: P. Hao, A checkpointing restart approach for OpenSHMEM fault tolerance, University of
 * Houston 2016, 4.3.3.  There the restart moves the data.  Here ftkit_checkpoint() has done this
 * already when shmem_checkpoint_all() says that a PE was lost, and sets are of one moment in all
 * modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"

int shmem_ft_failed(void)
{
    return !ftk_shmem_ready("shmem_ft_failed") || !ftk_shmem_look("shmem_ft_failed");
}

/* A set of shmem_init(): survivors are past the set-up of their data, and it is gone. */
_Noreturn static void begin_again(void)
{
    fprintf(stderr,
        "shmem: PE %d: a PE was lost before the first shmem_checkpoint_all: the job begins again\n",
        ftk_shmem.me);
    exit(EXIT_FAILURE); /* with an open context this is a loss */
}

/* The memory is that of the last set. */
static int is_back(void)
{
    if (!ftk_shmem_heap_saved())
        begin_again();
    ftk_shmem_none_open();
    return SHMEM_FT_FAILURE;
}

/* After shmem_init() a substitute calls ftkit_checkpoint() once, which is the call in which the
 * others were taken back. */
int shmem_checkpoint_all(void)
{
    struct ftk_shmem *s = &ftk_shmem;
    if (ftk_shmem_ready("shmem_checkpoint_all"))
        (void)ftk_shmem_flush_all("shmem_checkpoint_all"); /* ftkit_checkpoint() reports a loss */
    const bool restored = s->restored;
    s->restored = s->begins = false;
    ftk_shmem_heap_set_saved();
    int rc = ftkit_request(s->ft, 0);
    if (rc == FTKIT_OK)
        rc = ftkit_checkpoint(s->ft);
    if (rc == FTKIT_ROLLED_BACK || (rc == FTKIT_OK && restored))
        return is_back();
    if (rc == FTKIT_HALT)
        ftk_shmem_halt();
    if (FTKIT_FATAL(rc))
        ftk_shmem_end("shmem_checkpoint_all: %s: %s", ftkit_strerror(rc), ftkit_detail(s->ft));
    if (rc < 0)
        fprintf(stderr, "shmem: PE %d: shmem_checkpoint_all: not saved: %s: %s\n", s->me,
            ftkit_strerror(rc), ftkit_detail(s->ft));
    s->is_new = false;
    return SHMEM_FT_SUCCESS;
}

/* What this PE knows of the losses: why [n] of each PE, 1 + enum ftkit_reason.  A PE may have been
 * lost twice; the last loss counts. */
static void reasons(int *why)
{
    int n = 0;
    int rc = ftkit_failures(ftk_shmem.ft, NULL, &n);
    ftkit_failure *list = malloc(((size_t)n + 1) * sizeof *list);
    if (!list)
        ftk_shmem_end("shmem_query_fault: no memory");
    if (rc == FTKIT_OK)
        rc = ftkit_failures(ftk_shmem.ft, list, &n);
    if (rc != FTKIT_OK)
        ftk_shmem_end("shmem_query_fault: %s", ftkit_detail(ftk_shmem.ft));
    for (int i = 0; i < n; i++)
        if (list[i].rank < ftk_shmem.n)
            why[list[i].rank] = SHMEM_FT_PE_LOST + list[i].reason;
    free(list);
}

/* Not each PE knows each reason, so the best one of all PEs is taken. */
void shmem_query_fault(int **pes, int **pes_status, size_t *numpes)
{
    struct ftk_shmem *s = &ftk_shmem;
    const size_t n = (size_t)s->n;
    int *is = calloc(2 * n + 1, sizeof *is); /* [n] whether each PE is new, [n] why */
    int *which = malloc((n + 1) * sizeof *which), *why = malloc((n + 1) * sizeof *why);
    size_t found = 0;
    if (!is || !which || !why)
        ftk_shmem_end("shmem_query_fault: no memory");
    memset(s->lost, 0, n * sizeof *s->lost);
    if (ftk_shmem_ready("shmem_query_fault")) {
        is[s->me] = s->is_new;
        reasons(is + n);
        if (!ftk_shmem_done("shmem_query_fault",
                MPI_Allreduce(MPI_IN_PLACE, is, 2 * s->n, MPI_INT, MPI_MAX, s->comm)))
            memset(is, 0, n * sizeof *is);
        for (int i = 0; i < s->n; i++) {
            s->lost[i] = is[i] != 0;
            if (!is[i])
                continue;
            which[found] = i;
            why[found++] = is[n + (size_t)i] ? is[n + (size_t)i] : SHMEM_FT_PE_LOST;
        }
    }
    free(is);
    *pes = which;
    *pes_status = why;
    *numpes = found;
}

void(shmem_restart_pes)(int *pes, size_t numpes)
{
    if (!ftk_shmem_ready("shmem_restart_pes"))
        return;
    for (size_t i = 0; i < numpes; i++)
        if ((pes[i] < 0 || pes[i] >= ftk_shmem.n || !ftk_shmem.lost[pes[i]])
            && !ftk_shmem_mistake("shmem_restart_pes: PE %d was not lost", pes[i]))
            return;
}

int shmem_ft_algo_init(void)
{
    (void)ftk_shmem_ready("shmem_ft_algo_init"); /* only whether the library is open */
    return ftk_shmem.begins;
}

/* A PE is lost inside of shmem_init().  DIE=PE WHEN: this PE ends in its first call of
 * ftkit_checkpoint(), which writes the set of shmem_init(): before the call, or after it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ftkit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmem.h>

static long x, sum;
static long sync_[SHMEM_REDUCE_SYNC_SIZE];

/* A file says that the PE has ended once. */
static void end_in(const char *when)
{
    const char *text = getenv("DIE"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char at[16];
    int pe;
    if (!text || !rank || sscanf(text, "%d %15s", &pe, at) != 2 || pe != atoi(rank)
        || strcmp(at, when) != 0)
        return;
    FILE *f = fopen("died", "wx");
    if (f && fclose(f) == 0)
        raise(SIGKILL);
}

/* In place of that of the library. */
int ftkit_checkpoint(ftkit_ctx *ctx)
{
    int (*call)(ftkit_ctx *);
    void *found = dlsym(RTLD_NEXT, "ftkit_checkpoint");
    memcpy(&call, &found, sizeof call); /* ISO C has no cast from data to functions */
    end_in("before");
    const int rc = call(ctx);
    end_in("after");
    return rc;
}

int main(void)
{
    int *pes, *why;
    size_t lost;
    shmem_init();
    const int me = shmem_my_pe(), n = shmem_n_pes();
    if (!shmem_ft_algo_init()) { /* all PEs begin, the substitute too */
        printf("PE %d does not begin\n", me);
        shmem_global_exit(1);
    }
    x = me + 1;
    shmem_query_fault(&pes, &why, &lost);
    const int first = shmem_checkpoint_all();
    shmem_long_sum_to_all(&sum, &x, 1, 0, 0, n, NULL, sync_);
    if (me == 0)
        printf("first %d, lost %zu, sum %ld\n", first, lost, sum);
    free(pes);
    free(why);
    shmem_finalize();
    return 0;
}

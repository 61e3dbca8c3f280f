/* Determinants of lost ranks: found in the files that dead processes have left, and adopted.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "det_inside.h"
#include "detect/sure.h"

static struct adopted {
    struct ftk_det *v[2];
    uint64_t n[2], lines[2];
    bool found;
} * adopted; /* [adopted_n] by rank */
static int adopted_n;

static void free_one(struct adopted *in)
{
    free(in->v[0]);
    free(in->v[1]);
    memset(in, 0, sizeof *in);
}

void ftk_det_forget_search(void)
{
    for (int r = 0; r < adopted_n; r++)
        free_one(&adopted[r]);
    free(adopted);
    adopted = NULL;
    adopted_n = 0;
}

const struct ftk_det *ftk_det_adopted(int r, uint64_t line, size_t *n)
{
    *n = 0;
    for (int i = 0; r < adopted_n && i < 2; i++) {
        const struct adopted *in = &adopted[r];
        if (!in->found || in->lines[i] != line)
            continue;
        *n = (size_t)in->n[i];
        return in->v[i];
    }
    return NULL;
}

bool ftk_det_is_adopted(int r)
{
    return r < adopted_n && adopted[r].found;
}

void ftk_det_adopt(int r, uint64_t line, struct ftk_det *v, size_t n)
{
    struct adopted *in = &adopted[r];
    free_one(in);
    *in = (struct adopted){
        .v = { v, NULL }, .n = { n, 0 }, .lines = { line, line + 1 }, .found = true
    };
}

static bool is_of_now(const struct ftk_det_head *h)
{
    return h->magic == FTK_DET_MAGIC
           && (h->epoch_id == ftk_log.epoch.id_now || h->next == ftk_log.epoch.id_now);
}

/* Read one file of a rank; its process is dead, so the file does not change. */
static bool read_file(int rank, const char *name, int i, struct adopted *in)
{
    /* a spare does not know ftk_log.n */
    const int plane = rank / (adopted_n / ftk_log.ctx->cfg.replicas);
    const unsigned back = ftk_log.epoch.all_rolled_back_now >> plane & 1;
    struct ftk_det_head h;
    struct stat st;
    bool good = false;
    int fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (ftk_access_own_file(fd) == 0 && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h
        && is_of_now(&h) && fstat(fd, &st) == 0
        && h.n <= ((uint64_t)st.st_size - sizeof h) / sizeof(struct ftk_det)) {
        /* all ranks of its plane rolled back, and the process died before it dropped them */
        bool dropped = back && h.epoch_id != ftk_log.epoch.id_now;
        in->n[i] = dropped ? 0 : h.n;
        size_t bytes = (size_t)in->n[i] * sizeof(struct ftk_det);
        in->lines[i] = h.lines;
        in->v[i] = malloc(bytes + 1);
        good = in->v[i] && pread(fd, in->v[i], bytes, sizeof h) == (ssize_t)bytes;
    }
    (void)close(fd);
    return good;
}

/* Read the files of rank r on this node. */
static void look_for(int r, struct adopted *in)
{
    char job[64], begin[80], name[112];
    struct dirent *e;
    if (FTK_FAULT("log.blind"))
        return;
    DIR *dir = opendir("/dev/shm");
    ftk_det_name_of_job(ftk_log.ctx->job, job, sizeof job);
    snprintf(begin, sizeof begin, "%s%d-", job, r);
    size_t len = strlen(begin);
    while (dir && !in->found && (e = readdir(dir)) != NULL) {
        if (strncmp(e->d_name, begin, len) != 0)
            continue;
        long pid = strtol(e->d_name + len, NULL, 10);
        ftk_det_name_of(r, pid, 0, name, sizeof name);
        in->found = read_file(r, name, 0, in);
        ftk_det_name_of(r, pid, 1, name, sizeof name);
        in->found = in->found && read_file(r, name, 1, in);
        if (!in->found)
            free_one(in);
    }
    if (dir)
        (void)closedir(dir);
}

static int send_to_all(MPI_Comm s, bool root_is_me, int root, struct adopted *in)
{
    const struct ftk_sure all = { s, NULL, "determinants of the lost" };
    uint64_t word[4] = { in->n[0], in->n[1], in->lines[0], in->lines[1] };
    int rc = ftk_sure_bcast(&all, root, word, sizeof word);
    for (int i = 0; rc == FTKIT_OK && i < 2; i++) {
        size_t bytes = (size_t)word[i] * sizeof(struct ftk_det);
        if (!root_is_me) {
            free(in->v[i]);
            in->v[i] = malloc(bytes + 1);
            in->n[i] = word[i];
            in->lines[i] = word[2 + i];
            in->found = true;
        }
        rc = in->v[i] ? ftk_sure_bcast(&all, root, in->v[i], bytes)
                      : ftk_fail(FTKIT_ERR_NOMEM, "determinants of the lost");
    }
    return rc;
}

/* Share them: the first process that has them sends them to all.  *found: there is one. */
static int spread(MPI_Comm s, int me, int r, bool *found)
{
    struct adopted *in = &adopted[r];
    look_for(r, in);
    const struct ftk_sure all = { s, NULL, "determinants of the lost" };
    int64_t root = in->found ? me : INT_MAX;
    int rc = ftk_sure_min(&all, &root, 1);
    if (rc != FTKIT_OK)
        return rc;
    *found = root != INT_MAX;
    return *found ? send_to_all(s, root == me, (int)root, in) : rc;
}

/* With keepers on other nodes: the node of the keeper may be lost, too. */
static bool on_one_node(const int *lost, int n)
{
    int node = -1;
    for (int r = 0; r < n; r++) {
        if (lost[r] && node >= 0 && ftk_log.node[r] != node)
            return false;
        node = lost[r] ? ftk_log.node[r] : node;
    }
    return true;
}

int ftk_det_search(MPI_Comm s, const int *lost, int n, bool *all, bool *led)
{
    const int planes = ftk_log.ctx->cfg.replicas;
    int me = 0;
    bool missing = false;
    ftk_det_forget_search();
    if (!ftk_log.mode->records)
        return FTKIT_OK;
    adopted = calloc((size_t)n, sizeof *adopted);
    if (!adopted)
        return ftk_fail(FTKIT_ERR_NOMEM, "determinants");
    adopted_n = n;
    int mrc = PMPI_Comm_rank(s, &me);
    int rc = mrc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(mrc, "determinants of the lost");
    for (int r = 0; rc == FTKIT_OK && r < n; r++) {
        bool found = true;
        if (lost[r])
            rc = spread(s, me, r, &found);
        missing = missing || !found;
        *led = *led || (!found && planes > 1 && r / (n / planes) == ftk_log.epoch.leader);
    }
    *all = missing && !(ftk_log.mode->off_node && on_one_node(lost, n));
    return rc;
}

/* A request of the MPI itself beside one of the log: each step writes to a file of its process
 * and receives, and waits for either (MPI_Waitany).  What is complete has to be so, also in a
 * step that is made again, when the write has had less time.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define BYTES (64 << 20)

static struct {
    uint64_t *state; /* [2] registered: hash of what has come, requests that are left */
    char *data;
    MPI_File file;
} g;

static int prepare(struct foreign *f)
{
    char path[64];
    snprintf(path, sizeof path, "written.%d", f->rank);
    g.state = calloc(2, sizeof *g.state);
    g.data = calloc(1, BYTES);
    return !g.state || !g.data
           || MPI_File_open(
                  MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &g.file)
                  != MPI_SUCCESS
           || ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T) != FTKIT_OK;
}

static void wait_for_both(MPI_Request q[2])
{
    for (int k = 0; k < 2; k++) {
        int i = MPI_UNDEFINED;
        if (MPI_Waitany(2, q, &i, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (i == MPI_UNDEFINED || q[i] != MPI_REQUEST_NULL)
            g.state[1]++;
    }
}

static void step(struct foreign *f)
{
    MPI_Request q[2];
    uint64_t in = 0, out = (uint64_t)f->step;
    int next = (f->rank + 1) % f->nranks, before = (f->rank + f->nranks - 1) % f->nranks;
    ftkit_info info = { .size = sizeof info };
    (void)FTK_FAULT("app.mid");
    bool first = ftkit_query(f->ft, &info) == FTKIT_OK && info.incarnation == 0;
    MPI_File_iwrite_at(g.file, 0, g.data, BYTES, MPI_BYTE, &q[0]);
    MPI_Irecv(&in, 1, MPI_UINT64_T, before, 1, f->comm, &q[1]);
    for (int done = 0; first && !done;) /* the write is over before the receive */
        MPI_Request_get_status(q[0], &done, MPI_STATUS_IGNORE);
    MPI_Send(&out, 1, MPI_UINT64_T, next, 1, f->comm);
    wait_for_both(q);
    g.state[0] = foreign_mix(g.state[0], in);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, g.state[0], g.state[1], hash, detail, room);
}

static void release(void)
{
    (void)MPI_File_close(&g.file);
    free(g.state);
    free(g.data);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "writes", 12, 1, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}

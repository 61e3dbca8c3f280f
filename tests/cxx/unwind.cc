// A destructor closes the context, and an exception of one rank, or of all, unwinds through it.
//
//   unwind one|all
//
// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <unistd.h>

#include <ftkit.h>

struct context {
    ftkit_ctx *ft = nullptr;
    context()
    {
        if (ftkit_open(MPI_COMM_WORLD, nullptr, &ft) != FTKIT_OK)
            throw std::runtime_error(ftkit_detail(nullptr));
    }
    ~context() { ftkit_close(&ft); }
};

static int run(const char *who)
{
    context c;
    MPI_Comm comm;
    int rank, step = 0;
    double x = 1, sum = 0;
    ftkit_bind_comm(c.ft, &comm);
    MPI_Comm_rank(comm, &rank);
    ftkit_register_replicated(c.ft, "step", &step, 1, MPI_INT);
    ftkit_info in;
    in.size = sizeof in;
    ftkit_query(c.ft, &in);
    int rc = ftkit_recover(c.ft, nullptr);
    while (rc >= 0) {
        rc = ftkit_checkpoint(c.ft);
        if (rc < -39)
            break;
        if (step >= 60) {
            rc = ftkit_finish(c.ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            break;
        }
        bool all = strcmp(who, "all") == 0;
        if (step == 30 && (all || (rank == 1 && in.incarnation == 0)))
            throw std::runtime_error("negative density");
        MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        step++;
        usleep(2000);
    }
    return rc < 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rc = 3;
    try {
        rc = run(argc > 1 ? argv[1] : "one");
    } catch (const std::exception &e) {
        std::fprintf(stderr, "caught: %s\n", e.what());
    }
    MPI_Finalize();
    return rc;
}

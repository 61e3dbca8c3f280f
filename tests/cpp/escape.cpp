// A C++ program whose library ignores errors of MPI and owns things: a failure leaves it by an
// exception, all destructors run, and exceptions of the program pass through.
//
//   escape RESULT [VICTIM]: this rank is killed in step 50, while the others are in the library
//
// SPDX-License-Identifier: BSD-3-Clause
#include <ftkit.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

static int alive; // objects of the library

struct owner {
    std::vector<double> data;
    MPI_Comm comm;
    explicit owner(MPI_Comm c) : data(100, 1.0), comm(c) { alive++; }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner()
    {
        alive--;
        int flag = 0; // a call on the way out: returns an error after a failure
        MPI_Iprobe(MPI_ANY_SOURCE, 77, comm, &flag, MPI_STATUS_IGNORE);
    }
};

static double library_sum(MPI_Comm comm, double mine)
{
    owner o(comm);
    double all = 0;
    while (MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS) {
    }
    return all * o.data.back();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    ftkit_ctx *ft;
    if (ftkit_open(MPI_COMM_WORLD, nullptr, &ft) != FTKIT_OK)
        return 1;
    MPI_Comm comm;
    ftkit_bind_comm(ft, &comm);
    int rank, step = 0, rc, bad = 0, thrown = 0, left = 0;
    const int victim = argc > 2 ? std::atoi(argv[2]) : -1;
    ftkit_info info = {};
    info.size = sizeof info;
    double sum = 0;
    MPI_Comm_rank(comm, &rank);
    ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    ftkit_register(ft, "sum", &sum, 1, MPI_DOUBLE);
    while (ftkit_step(ft, &rc)) {
        if (step >= 200) {
            ftkit_end(ft);
            continue;
        }
        try {
            left += FTKIT_ESCAPED == ftkit::escape(ft, [&] {
                ftkit_query(ft, &info);
                if (rank == victim && step == 50 && info.incarnation == 0)
                    std::raise(SIGKILL);
                sum += library_sum(comm, rank + step);
                if (step == 7)
                    throw std::runtime_error("of the program");
            });
        } catch (const std::runtime_error &) {
            thrown++;
        }
        bad += alive != 0;
        step++; // also of a body that was left: the next step goes back
    }
    FILE *f = rank == 0 && rc == FTKIT_OK ? std::fopen(argv[1], "w") : nullptr;
    if (f) {
        std::fprintf(f, "%d steps, sum %.12g\n", step, sum);
        std::fclose(f);
    }
    std::fprintf(stderr, "rank %d: escaped %d times, %d objects left, %d thrown\n", rank, left,
        bad, thrown);
    rc = ftkit_close(&ft) < 0 || rc < 0 || bad > 0;
    MPI_Finalize();
    return rc;
}

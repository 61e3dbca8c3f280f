// A C++ program whose state is in files, and which goes on on another number of ranks.
//
//   files [-f|-j] RESULT: rank 1 is killed in pass 17, if RESULT-killed does not exist; -f: the
//   files are written between two calls, and not by functions; -j: all ranks write them together
//
// SPDX-License-Identifier: BSD-3-Clause
#include <ftkit.hpp>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

struct count { // the same on all ranks
    long passes = 0, old = 0;
};

void checkpoint_write(const count &c, const std::string &dir)
{
    std::ofstream out(dir + "/count");
    out << c.passes << std::endl;
    if (!out)
        throw std::runtime_error(dir);
}

void checkpoint_read(count &c, const std::string &dir)
{
    std::ifstream in(dir + "/count");
    if (!(in >> c.passes))
        throw std::runtime_error(dir);
}

void checkpoint_read(count &c, const ftkit::old_files &old)
{
    c.old = old.ranks();
    try {
        old.of(old.ranks());
        std::abort();
    } catch (const ftkit::error &e) {
        if (e.code() != FTKIT_ERR_ARG)
            throw;
    }
    checkpoint_read(c, old.of(old.ranks() - 1));
}

int run(const char *result, bool between, bool joint)
{
    ftkit::context ft;
    count c;
    int rank;
    MPI_Comm_rank(ft.comm(), &rank);
    if (joint)
        ft.joint_files("count");
    else if (between)
        ft.files("count"), ft.files_any_ranks("count");
    else
        ft.files("count", c), ft.files_any_ranks("count", c);
    for (auto step : ft.loop(30)) {
        if (between && step.rolled_back()) {
            c.old = ft.files_ranks("count");
            checkpoint_read(c, c.old ? ft.files_of("count", 0) : ft.files_read("count"));
        }
        if (joint && step.rolled_back())
            checkpoint_read(c, ft.files_read("count"));
        const std::string killed = std::string(result) + "-killed";
        if (step == 17 && rank == 1 && !std::ifstream(killed) && std::ofstream(killed))
            std::raise(SIGKILL);
        long mine = 1, all = 0;
        if (MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, ft.comm()) != MPI_SUCCESS)
            continue;
        c.passes += all > 0;
        if (between && ft.due()) {
            checkpoint_write(c, ft.files_begin("count"));
            ft.files_end("count");
        }
        if (joint && ft.due()) {
            const std::string dir = ft.files_begin("count");
            if (rank == 1)
                checkpoint_write(c, dir);
            ft.files_end("count");
        }
    }
    if (ft.finished() && rank == 0)
        std::ofstream(result) << c.passes << " passes, files of " << c.old << " ranks" << std::endl;
    return ft.close() != FTKIT_OK;
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const bool between = std::strcmp(argv[1], "-f") == 0;
    const bool joint = std::strcmp(argv[1], "-j") == 0;
    const int rc = run(argv[argc - 1], between, joint);
    MPI_Finalize();
    return rc;
}

// Relaxes towards a mean over all ranks; rank 0 prints the sum.
//
// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <ftkit.hpp>
#include <vector>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int code = 1;
    try {
        std::vector<double> x;
        double sum = 0;
        int rank, size;
        ftkit::context ft;
        MPI_Comm_rank(ft.comm(), &rank);
        MPI_Comm_size(ft.comm(), &size);
        x.assign(1000, rank + 0.125);
        ft.region("x", x);
        ft.replicated("sum", sum);
        for (auto step : ft.loop(100)) {
            if (step.rolled_back() && rank == 0)
                std::fprintf(stderr, "continues at step %d\n", int(step));
            double mine = x[0];
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, ft.comm());
            for (double &v : x)
                v = 0.75 * v + 0.25 * sum / size;
        }
        if (ft.finished() && rank == 0)
            std::printf("sum %.17g\n", sum);
        ft.close();
        code = 0;
    } catch (const ftkit::error &e) {
        std::fprintf(stderr, "%s\n", e.what());
    }
    MPI_Finalize();
    return code;
}

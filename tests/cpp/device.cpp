// A C++ program whose objects have their items in memory of a device: a view of two dimensions, as
// Kokkos::View is, and a vector.  Each pass verifies all items that the passes before have made.
//
//   device [-v VICTIM]: rank VICTIM is killed in the passes 9 and 14
//
// SPDX-License-Identifier: BSD-3-Clause
#include <ftkit.hpp>

#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <iostream>
#include <memory>

extern "C" {
#include "../lib/fakecuda.h"
}

namespace
{

constexpr int PASSES = 20, ROWS = 300, COLS = 130;

void *driver, *stream, *add;

template <class F> F *function(const char *name)
{
    return reinterpret_cast<F *>(dlsym(driver, name));
}
#define MUST(name, ...)                                                                            \
    do {                                                                                           \
        if (function<decltype(name)>(#name)(__VA_ARGS__) != 0)                                     \
            throw std::runtime_error(#name);                                                       \
    } while (0)

void start_device()
{
    void *context, *module;
    const unsigned non_blocking = 1;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        throw std::runtime_error(dlerror());
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuStreamCreate, &stream, non_blocking);
    MUST(cuModuleLoadData, &module, "");
    MUST(cuModuleGetFunction, &add, module, "add");
}

CUdeviceptr address(const double *p)
{
    return reinterpret_cast<CUdeviceptr>(p);
}

// Memory of the device, shared by the copies of an object.
std::shared_ptr<double> allocate(std::size_t items)
{
    CUdeviceptr p = 0;
    MUST(cuMemAlloc_v2, &p, items * sizeof(double));
    return { reinterpret_cast<double *>(p),
        [](double *q) { (void)function<decltype(cuMemFree_v2)>("cuMemFree_v2")(address(q)); } };
}

void fill(double *p, std::size_t n, double value)
{
    const std::vector<double> host(n, value);
    if (n > 0)
        MUST(cuMemcpyHtoD_v2, address(p), host.data(), n * sizeof(double));
}

// A kernel, which is under way behind the call.
void add_to(double *p, std::size_t items, double value)
{
    unsigned long long n = items;
    void *args[] = { &p, &n, &value };
    MUST(cuLaunchKernel, add, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr);
}

bool all_are(const double *p, std::size_t n, double value)
{
    std::vector<double> host(n, -1);
    MUST(cuStreamSynchronize, stream);
    if (n > 0)
        MUST(cuMemcpyDtoH_v2, host.data(), address(p), n * sizeof(double));
    return host == std::vector<double>(n, value);
}

// A view with a halo of 1 in the first dimension.
struct view {
    static constexpr std::size_t rank = 2;
    std::shared_ptr<double> items;
    double *data() const
    {
        return items.get();
    }
    std::size_t size() const
    {
        return std::size_t(ROWS + 2) * COLS;
    }
    std::size_t extent(std::size_t d) const
    {
        return d == 0 ? ROWS + 2 : COLS;
    }
    std::size_t stride(std::size_t d) const
    {
        return d == 0 ? COLS : 1;
    }
};

struct device_vector {
    std::shared_ptr<double> items;
    std::size_t n = 0;
    double *data() const
    {
        return items.get();
    }
    std::size_t size() const
    {
        return n;
    }
    void resize(std::size_t to)
    {
        if (to != n)
            items = to > 0 ? allocate(to) : nullptr;
        n = to;
    }
};

std::size_t length(long pass)
{
    return std::size_t(pass * 37 % 91);
}

void run(ftkit::context &ft, int victim)
{
    int rank, size;
    MPI_Comm_rank(ft.comm(), &rank);
    MPI_Comm_size(ft.comm(), &size);
    start_device();
    view u{ allocate(std::size_t(ROWS + 2) * COLS) };
    device_vector v;
    const std::size_t all = std::size_t(ROWS) * std::size_t(size), at = std::size_t(ROWS * rank);
    fill(u.data(), u.size(), rank);
    ft.array("u", u, { all, COLS }, { at, 0 }, { 1, 0 });
    ft.region("v", v);
    for (auto step : ft.loop(PASSES)) {
        const long i = step;
        const ftkit_info info = ft.query();
        if (!all_are(u.data() + COLS, std::size_t(ROWS) * COLS, rank + 0.5 * double(i))
            || v.size() != length(i) || !all_are(v.data(), v.size(), double(i)))
            throw std::runtime_error("wrong items in pass " + std::to_string(i));
        if (rank == victim
            && ((i == 9 && info.incarnation == 0) || (i == 14 && info.incarnation == 1)))
            std::raise(SIGKILL);
        v.resize(length(i + 1));
        fill(v.data(), v.size(), double(i));
        if (v.size() > 0)
            add_to(v.data(), v.size(), 1);
        add_to(u.data(), u.size(), 0.5);
    }
    if (ft.finished() && rank == 0)
        std::cout << "device: " << PASSES << " passes are right" << std::endl;
    ft.close(); // before its regions end
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int code = 1;
    try {
        ftkit::context ft;
        run(ft, argc > 2 ? std::atoi(argv[2]) : -1);
        code = 0;
    } catch (const std::exception &e) {
        std::cerr << "device: " << e.what() << std::endl;
    }
    MPI_Finalize();
    return code;
}

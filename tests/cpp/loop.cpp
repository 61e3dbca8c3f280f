// A C++ program with every kind of region of ftkit.hpp.  Its result says whether ranks were lost on
// the way: it must not.
//
//   loop [-v VICTIM] [-e PASS] [-x PASS] [-w] [-f] RESULT: rank VICTIM is killed in the passes 20
//   and 35; the loop ends at a pass (-e), or rank 1 throws there, once (-x); -w: each pass ends
//   with a call in which the ranks may roll back, and VICTIM is killed before two of these, too;
//   -f: the diary is written between two calls, and not by functions
//
// SPDX-License-Identifier: BSD-3-Clause
#include <ftkit.hpp>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <unistd.h>

namespace {

constexpr int PASSES = 60, ROWS = 7, COLS = 5;

struct particle { // a trivially copyable object without holes
    double x, v;
    std::int64_t id;
};

enum class phase : short { cold, warm, hot };

// A view of two dimensions with a halo of 1 in the first one, as std::mdspan or Kokkos::View is.
struct grid {
    std::vector<double> cells = std::vector<double>((ROWS + 2) * COLS);
    static constexpr std::size_t rank() { return 2; }
    double *data() { return cells.data(); }
    std::size_t size() const { return cells.size(); }
    std::size_t extent(std::size_t d) const { return d == 0 ? ROWS + 2 : COLS; }
    std::size_t stride(std::size_t d) const { return d == 0 ? COLS : 1; }
};

struct table { // an object of any kind
    std::map<std::int32_t, std::int32_t> of;
};

std::size_t checkpoint_measure(const table &t)
{
    return t.of.size() * 2 * sizeof(std::int32_t);
}

void checkpoint_pack(const table &t, void *to, std::size_t)
{
    std::int32_t *out = static_cast<std::int32_t *>(to);
    for (const auto &[key, value] : t.of) {
        *out++ = key;
        *out++ = value;
    }
}

void checkpoint_unpack(table &t, const void *from, std::size_t bytes)
{
    const std::int32_t *in = static_cast<const std::int32_t *>(from);
    t.of.clear();
    for (std::size_t i = 0; i < bytes / sizeof *in; i += 2)
        t.of[in[i]] = in[i + 1];
}

struct diary { // saves itself by a file
    std::string text = "begin";
};

void checkpoint_write(const diary &d, const std::string &dir)
{
    std::ofstream out(dir + "/diary.txt");
    out << d.text << std::endl;
    if (!out)
        throw std::runtime_error(dir);
}

void checkpoint_read(diary &d, const std::string &dir)
{
    std::ifstream in(dir + "/diary.txt");
    if (!std::getline(in, d.text))
        throw std::runtime_error(dir);
}

struct simulation {
    diary d;
    std::vector<double> growing;
    std::vector<particle> particles;
    std::string text;
    std::array<float, 5> fixed{};
    std::complex<double> wave{ 1, 0 };
    phase now = phase::cold;
    short matrix[3][4] = {};
    bool odd = false;
    double energy = 0; // the same on all ranks
    grid g;
    table t;

    void protect(ftkit::context &ft, int rank, int size)
    {
        const std::size_t rows = ROWS, all = rows * std::size_t(size);
        ft.region("growing", growing);
        ft.region("particles", particles);
        ft.region("text", text);
        ft.region("fixed", fixed);
        ft.region("wave", wave);
        ft.region("now", now);
        ft.region("matrix", matrix);
        ft.region("odd", &odd, 1);
        ft.replicated("energy", energy);
        ft.array("g", g, { all, COLS }, { rows * std::size_t(rank), 0 }, { 1, 0 });
        ft.object("table", t);
    }

    void pass(MPI_Comm comm, long i, int rank)
    {
        growing.resize(std::size_t((i * 37 + rank * 11) % 91), double(i));
        if (!growing.empty())
            growing.back() += energy;
        if (i % 3 == 0)
            particles.push_back({ double(i), 0.5 * rank, i * 1000 + rank });
        for (particle &p : particles)
            p.x += p.v;
        text = "pass " + std::to_string(i);
        fixed[std::size_t(i % 5)] += float(rank) + 0.25f;
        wave *= std::complex<double>(0.8, 0.6);
        now = phase(i % 3);
        matrix[i % 3][i % 4] = short(matrix[i % 3][i % 4] + rank + 1);
        odd = !odd;
        t.of[std::int32_t(i % 17)] += rank + 1;
        for (std::size_t c = 0; c < g.cells.size(); c++)
            g.cells[c] = 0.5 * g.cells[c] + double(rank + 1) / double(c + 1);
        d.text = std::to_string(i % 8) + d.text.substr(0, 20);
        double mine = sum();
        MPI_Allreduce(&mine, &energy, 1, MPI_DOUBLE, MPI_SUM, comm);
        energy /= 1e3;
    }

    double sum() const
    {
        double s = double(text.size()) + std::real(wave) + 10 * int(now) + odd;
        for (char c : d.text)
            s = 0.5 * s + c;
        for (double v : growing)
            s += v;
        for (const particle &p : particles)
            s += p.x + double(p.id);
        for (float f : fixed)
            s += double(f);
        for (const auto &row : matrix)
            for (short m : row)
                s += m;
        for (double c : g.cells)
            s += c;
        for (const auto &[key, value] : t.of)
            s += key * value;
        return s;
    }
};

struct arguments {
    const char *result = nullptr;
    int victim = -1;
    long end = -1, thrower = -1;
    bool waits = false, between = false;
};

// Whether this is the first time that the job comes here, relaunches included.
bool first_time(const arguments &a, long i)
{
    const std::string mark = a.result + ("." + std::to_string(i));
    const int fd = open(mark.c_str(), O_CREAT | O_EXCL, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void disturb(const arguments &a, long i, int rank)
{
    if (rank == a.victim && (i == 20 || i == 35) && first_time(a, i))
        std::raise(SIGKILL);
    if (rank == 1 && i == a.thrower && first_time(a, i))
        throw std::runtime_error("of the program");
}

// Calls behind the work of a pass, in which the ranks may roll back.
int waits(const arguments &a, ftkit::context &ft, long i, int rank)
{
    if (rank == a.victim && (i == 27 || i == 44) && first_time(a, i))
        std::raise(SIGKILL);
    return i % 2 ? ft.wait() : ft.scrub();
}

int run(const arguments &a)
{
    simulation s;
    int rank, size;
    ftkit::context first, ft(std::move(first)); // a context may be moved
    MPI_Comm_rank(ft.comm(), &rank);
    MPI_Comm_size(ft.comm(), &size);
    s.protect(ft, rank, size);
    if (a.between)
        ft.files("diary");
    else
        ft.files("diary", s.d);
    int back = 0;
    for (auto step : ft.loop(PASSES)) {
        back += step.rolled_back();
        if (step.code() < 0)
            return 2;
        if (step == a.end) {
            ft.end();
            continue;
        }
        if (a.between && step.rolled_back())
            checkpoint_read(s.d, ft.files_read("diary"));
        disturb(a, step, rank);
        s.pass(ft.comm(), step, rank);
        if (a.waits && waits(a, ft, step, rank) == FTKIT_ROLLED_BACK)
            continue; // begins the restored pass
        if (a.between && ft.due()) {
            checkpoint_write(s.d, ft.files_begin("diary"));
            ft.files_end("diary");
        }
    }
    back += ft.news() == FTKIT_ROLLED_BACK;
    if (!ft.finished() || first)
        return 3;
    std::fprintf(stderr, "rank %d: back %d times, %zu failed in the last repair\n", rank, back,
        ft.failures().size());
    if (rank == 0) {
        std::FILE *f = std::fopen(a.result, "w");
        std::fprintf(f, "%zu particles, %s, %a\n", s.particles.size(), s.text.c_str(), s.sum());
        std::fclose(f);
    }
    return ft.close() != FTKIT_OK;
}

} // namespace

int main(int argc, char **argv)
{
    arguments a;
    for (int c; (c = getopt(argc, argv, "v:e:x:wf")) != -1;) {
        if (c == 'v')
            a.victim = std::atoi(optarg);
        else if (c == 'w')
            a.waits = true;
        else if (c == 'f')
            a.between = true;
        else if (c == 'e')
            a.end = std::atol(optarg);
        else
            a.thrower = std::atol(optarg);
    }
    a.result = argv[optind];
    MPI_Init(&argc, &argv);
    int rc = 1;
    try {
        rc = run(a);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "caught: %s\n", e.what());
    }
    MPI_Finalize();
    return rc;
}

/* melt: LAMMPS, driven through its library, in a job that repairs itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of the simulation is LAMMPS' own: one restart file a rank, which write_restart makes
 * in a directory of ftkit in memory, and which read_restart reads after a failure.
 *
 * LAMMPS checks no error of MPI.  So all of its calls are made below ftkit::escape(): the first
 * call of MPI that fails because of a failure throws an exception, which leaves LAMMPS and ends in
 * the loop.  The next ftkit_step() repairs the job, and a new instance of LAMMPS reads the files of
 * the set.
 *
 *     make lammps
 *     ftkit run -n 4 --spares 1 -- build/lammps/melt -o melt.log
 *
 * docs/lammps.md has the rules, and what holds bit by bit. */
#include <climits>
#include <filesystem>
#include <string>
#include <vector>

#define LAMMPS_LIB_MPI
#include <lammps/library.h>

#define EXAMPLE_NAME "melt"
#include "../example.h"
#include "ftkit.hpp"

struct app {
    int steps = 1000, chunk = 50, every = 0;
    const char *start = "melt.start", *settings = "melt.settings", *log = nullptr;
    const char *again = nullptr, *config = nullptr, *pidfile = nullptr;

    ftkit_ctx *ft = nullptr;
    MPI_Comm comm = MPI_COMM_NULL; // the working ranks; kept current
    int rank = 0;
    void *lmp = nullptr;      // LAMMPS on comm
    std::vector<void *> left; // instances that an exception has left, until the next set
    bool saved = false;       // the coming ftkit_step() writes a set
    int64_t logged = 0;       // bytes of the log, on rank 0: a rollback shortens it
};

// ---- LAMMPS ----------------------------------------------------------------------------------

// Whether LAMMPS is content.  If it is not, and no rank was lost, the job ends.
static bool fine(app &a)
{
    char text[1024] = "lammps_open has failed";
    if (a.lmp && !lammps_has_error(a.lmp))
        return true;
    if (a.lmp)
        lammps_get_last_error_message(a.lmp, text, sizeof text);
    if (!ftkit_confirm(a.ft)) {
        fprintf(stderr, "melt: rank %d: %s\n", a.rank, text);
        ftkit_abort(a.comm, EXIT_FAILURE);
    }
    return false; // garbage of a failure: ftkit_step() repairs
}

static bool command(app &a, const std::string &line)
{
    lammps_command(a.lmp, line.c_str());
    return fine(a);
}

static bool file(app &a, const char *path)
{
    lammps_file(a.lmp, path);
    return fine(a);
}

static int step(const app &a)
{
    return int(*static_cast<int64_t *>(lammps_extract_global(a.lmp, "ntimestep")));
}

// A new instance on the present communicator, from the input script or from restart files.
static bool open(app &a, const std::string &restart)
{
    const char *args[] = { "melt", "-screen", "none", "-log", "none", "-nocite" };
    a.lmp = lammps_open(6, const_cast<char **>(args), a.comm, nullptr);
    return fine(a) && (restart.empty() ? file(a, a.start) : command(a, "read_restart " + restart))
        && file(a, a.settings) && (!a.log || command(a, std::string("log ") + a.log + " append"));
}

// ---- Sets ------------------------------------------------------------------------------------

static void stop(app &a, const char *what)
{
    if (ftkit_confirm(a.ft))
        return;
    fprintf(stderr, "melt: rank %d: %s: %s\n", a.rank, what, ftkit_detail(a.ft));
    ftkit_abort(a.comm, EXIT_FAILURE);
}

// Copies a file that LAMMPS has written below --again.
static bool copied(const app &a, const char *dir, const std::string &name)
{
    std::error_code bad;
    std::filesystem::copy_file(a.again + name, dir + name, bad);
    return !bad;
}

static void save(app &a)
{
    char dir[1100];
    if (ftkit_files_begin(a.ft, "restart", dir, sizeof dir) != FTKIT_OK)
        return stop(a, "ftkit_files_begin");
    bool ok = command(a, std::string("write_restart ") + (a.again ? a.again : dir) + "/restart.%");
    if (a.again)
        ok = ok && copied(a, dir, "/restart." + std::to_string(a.rank))
            && (a.rank != 0 || copied(a, dir, "/restart.base"));
    if (ftkit_files_end(a.ft, "restart", ok) != FTKIT_OK)
        return stop(a, "ftkit_files_end");
    if (a.log && a.rank == 0)
        a.logged = int64_t(std::filesystem::file_size(a.log));
    a.saved = true;
}

// Whether ftkit_step() writes a set next.  With --again the program decides, otherwise ftkit.
static bool due(app &a)
{
    if (!a.again) {
        int rc = ftkit_due(a.ft);
        if (rc < 0)
            stop(a, "ftkit_due (the message log needs --again)");
        return rc > 0;
    }
    if (step(a) / a.chunk % a.every != 0 || step(a) >= a.steps)
        return false;
    if (ftkit_request(a.ft, 0) != FTKIT_OK)
        stop(a, "ftkit_request");
    return true;
}

static void close_left(app &a)
{
    for (void *lmp : a.left)
        lammps_close(lmp);
    a.left.clear();
}

// The set that save() has prepared is there: no message arrives in what was left any more.
static bool committed(app &a)
{
    close_left(a);
    if (!a.again)
        return true;
    lammps_close(a.lmp);
    a.lmp = nullptr;
    return open(a, std::string(a.again) + "/restart.%");
}

// A rank was lost, or this is the first step: LAMMPS begins again.
static bool restored(app &a, int rc)
{
    char dir[1100];
    if (a.lmp)
        a.left.push_back(a.lmp);
    a.lmp = nullptr;
    if (rc != FTKIT_ROLLED_BACK)
        return open(a, "");
    if (ftkit_files_read(a.ft, "restart", dir, sizeof dir) != FTKIT_OK) {
        stop(a, "ftkit_files_read");
        return false;
    }
    bool good = open(a, std::string(dir) + "/restart.%");
    if (good)
        say(a.ft, rc, step(a));
    return good;
}

// ---- The loop --------------------------------------------------------------------------------

// What stands between two calls of ftkit_step().  Returns whether all steps are done.
static bool body(app &a, int rc)
{
    bool begins = !a.lmp || rc == FTKIT_NO_SET || rc == FTKIT_ROLLED_BACK;
    bool saved = a.saved && rc == FTKIT_OK;
    a.saved = false;
    if (begins ? !restored(a, rc) : saved && !committed(a))
        return false;
    note_pid(a.pidfile, a.rank, step(a));
    if (step(a) >= a.steps)
        return true;
    int n = a.steps - step(a) < a.chunk ? a.steps - step(a) : a.chunk;
    if (command(a, "run " + std::to_string(n) + " post no") && due(a))
        save(a);
    return false;
}

static int run(app &a)
{
    int rc, size, rollbacks = 0;
    ftkit_bind_comm(a.ft, &a.comm);
    MPI_Comm_rank(a.comm, &a.rank);
    MPI_Comm_size(a.comm, &size);
    const char *log = a.rank == 0 ? a.log : nullptr;
    if (ftkit_register_files(a.ft, "restart", nullptr, nullptr) < 0
        || ftkit_register_offset(a.ft, "log", log, &a.logged) < 0)
        give_up(ftkit_detail(a.ft));
    while (ftkit_step(a.ft, &rc)) {
        bool done = false;
        rollbacks += rc == FTKIT_ROLLED_BACK;
        if (rc < 0)
            say(a.ft, rc, 0);
        if (ftkit::escape(a.ft, [&] { done = body(a, rc); }) == FTKIT_OK && done)
            ftkit_end(a.ft);
    }
    say(a.ft, rc, a.lmp ? step(a) : 0);
    if (rollbacks > 0)
        printf("melt: rank %d: back %d times\n", a.rank, rollbacks);
    if (rc == FTKIT_OK && a.rank == 0)
        printf("melt: %d ranks, %d steps\n", size, step(a));
    if (a.lmp)
        a.left.push_back(a.lmp);
    close_left(a);
    return rc == FTKIT_OK || rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    app a;
    const opt table[] = {
        { "-s", "STEPS", "number of steps (1000)", 'i', &a.steps, 1, INT_MAX },
        { "-k", "STEPS", "steps between two calls of ftkit (50)", 'i', &a.chunk, 1, INT_MAX },
        { "-i", "FILE", "input script of the first start (melt.start)", 't', &a.start, 0, 0 },
        { "-j", "FILE", "input script of each start (melt.settings)", 't', &a.settings, 0, 0 },
        { "-o", "FILE", "the log of LAMMPS", 't', &a.log, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &a.config, 0, 0 },
        { "--again", "DIR", "after each set LAMMPS begins again from a copy of its files here",
            't', &a.again, 0, 0 },
        { "--every", "N", "with --again: a set each N calls", 'i', &a.every, 1, INT_MAX },
        { "--pidfile", "PREFIX", "write pid and step of rank R to PREFIX.R", 't', &a.pidfile, 0,
            0 },
        { nullptr, nullptr, nullptr, 0, nullptr, 0, 0 },
    };
    char err[4200] = "";

    MPI_Init(&argc, &argv);
    setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    int given = options_parse(table, argc, argv, err, sizeof err);
    if (given == 0 && !a.again != !a.every) {
        snprintf(err, sizeof err, "--again and --every belong together");
        given = -1;
    }
    int code = ready(given, table, a.log, err, sizeof err);
    if (code < 0) {
        int rc = ftkit_open(MPI_COMM_WORLD, a.config, &a.ft); // spares wait in here
        if (rc == FTKIT_OK) {
            code = run(a);
            rc = ftkit_close(&a.ft);
        }
        code = exit_code(rc, code);
    }
    MPI_Finalize();
    return code;
}

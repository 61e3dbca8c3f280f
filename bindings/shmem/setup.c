/* shmem_init(), shmem_finalize(), and questions about the job.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The windows are made before ftkit_recover(), where a substitute makes them again.  Locks need a
 * set, so shmem_init() writes one.  This set has no data of the program yet. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "own.h"

struct ftk_shmem ftk_shmem = { .seg = { { .win = MPI_WIN_NULL }, { .win = MPI_WIN_NULL } },
    .comm = MPI_COMM_NULL };

/* ---- errors -------------------------------------------------------------------------- */

enum { TEXT_BYTES = 512 };

_Noreturn static void end(const char *text)
{
    int closed;
    fprintf(stderr, "shmem: PE %d: %s\n", ftk_shmem.me, text);
    MPI_Finalized(&closed);
    if (closed) /* no call can end the other PEs, which end by themselves */
        exit(EXIT_FAILURE);
    (void)ftkit_abort(MPI_COMM_WORLD, EXIT_FAILURE); /* does not return */
    abort();
}

void ftk_shmem_end(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end(text);
}

bool ftk_shmem_mistake(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    if (ftkit_confirm(ftk_shmem.ft))
        return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end(text);
}

bool ftk_shmem_ready(const char *call)
{
    if (!ftk_shmem.ft)
        ftk_shmem_end("%s: call shmem_init before, and shmem_finalize after", call);
    return !ftk_shmem.restored && !ftkit_failed(ftk_shmem.ft);
}

bool ftk_shmem_done(const char *call, int rc)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int len;
    if (rc == MPI_SUCCESS)
        return true;
    if (ftkit_failed(ftk_shmem.ft) || ftkit_confirm(ftk_shmem.ft))
        return false;
    (void)MPI_Error_string(rc, text, &len); /* for the text only */
    ftk_shmem_end("%s: %s", call, text);
}

/* A call of ftkit that has to succeed. */
static void need(const char *call, int rc)
{
    if (rc < 0)
        ftk_shmem_end("%s: %s: %s", call, ftkit_strerror(rc), ftkit_detail(ftk_shmem.ft));
}

/* ---- the begin ----------------------------------------------------------------------- */

/* What windows with locks need, whatever the configuration says. */
static void configure(void)
{
    static const char *const keys[][2] = { { "FTKIT_LOG_ENABLED", "true" },
        { "FTKIT_LOG_TEAMS", "all" } };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (setenv(keys[i][0], keys[i][1], 1) != 0)
            ftk_shmem_end("shmem_init: no memory");
    ftk_shmem_choose_backup();
}

/* shmem_init() begins MPI, unless the program has begun it; the library ends what it has begun. */
static bool has_begun_mpi, is_finished;

static void end_mpi(void)
{
    if (has_begun_mpi)
        MPI_Finalize();
}

/* After MPI_Finalize no call of MPI is allowed. */
static void refuse_after_mpi(const char *call)
{
    int closed;
    MPI_Finalized(&closed);
    if (closed)
        ftk_shmem_end("%s: MPI is finalized: call it before shmem_finalize", call);
}

static void make_window(struct ftk_shmem_segment *s)
{
    int rc = MPI_Win_create(s->base, (MPI_Aint)s->bytes, 1, MPI_INFO_NULL, ftk_shmem.comm, &s->win);
    if (rc == MPI_SUCCESS)
        rc = MPI_Win_set_errhandler(s->win, MPI_ERRORS_RETURN);
    (void)ftk_shmem_done("shmem_init", rc); /* a lost PE is found after ftkit_recover() */
}

bool ftk_shmem_lock_windows(void)
{
    bool good = true;
    for (int i = 0; good && i < FTK_SHMEM_SEGMENTS; i++)
        good = ftk_shmem_done("shmem_init", MPI_Win_lock_all(0, ftk_shmem.seg[i].win));
    return good;
}

void ftk_shmem_halt(void)
{
    ftkit_ctx *ft = ftk_shmem.ft;
    ftk_shmem.ft = NULL;
    int rc = ftkit_close(&ft);
    end_mpi();
    exit(rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Whether all PEs have the same symmetric memory, or the job ends; false: a PE is lost. */
static bool compare_memory(void)
{
    const struct ftk_shmem_segment *h = &ftk_shmem.seg[FTK_SHMEM_HEAP];
    const struct ftk_shmem_segment *g = &ftk_shmem.seg[FTK_SHMEM_GLOBALS];
    const uint64_t mine[3] = { h->bytes, (uint64_t)(uintptr_t)g->base, g->bytes };
    uint64_t both[6], least[6];
    for (int i = 0; i < 3; i++) {
        both[i] = mine[i];
        both[i + 3] = ~mine[i];
    }
    if (!ftk_shmem_done(
            "shmem_init", MPI_Allreduce(both, least, 6, MPI_UINT64_T, MPI_MIN, ftk_shmem.comm)))
        return false;
    if (least[0] != ~least[3])
        ftk_shmem_end("shmem_init: the PEs have heaps of %" PRIu64 " to %" PRIu64
                      " bytes: set SHMEM_SYMMETRIC_SIZE to the same on all",
            least[0], ~least[3]);
    if (least[1] != ~least[4] || least[2] != ~least[5])
        ftk_shmem_end("shmem_init: the PEs have other variables: run the same program on all");
    return true;
}

/* Write the set without data of the program, and take the locks.  A PE that is lost meanwhile takes
 * all back to this set; its substitute comes here, too, and its first call of ftkit_checkpoint() is
 * that in which the others were taken back. */
static void begin(void)
{
    for (;;) {
        need("shmem_init", ftkit_request(ftk_shmem.ft, 0));
        const int rc = ftkit_checkpoint(ftk_shmem.ft);
        need("shmem_init", rc);
        if (rc == FTKIT_HALT)
            ftk_shmem_halt();
        if (ftk_shmem_lock_windows() && compare_memory())
            break;
    }
    ftk_shmem.is_new = false; /* a loss until here is none for the program */
}

static void open_memory(void)
{
    struct ftk_shmem *s = &ftk_shmem;
    for (int i = 0; i < FTK_SHMEM_SEGMENTS; i++)
        s->open[i] = calloc((size_t)s->n, sizeof *s->open[i]);
    s->lost = calloc((size_t)s->n, sizeof *s->lost);
    if (!s->open[FTK_SHMEM_HEAP] || !s->open[FTK_SHMEM_GLOBALS] || !s->lost)
        ftk_shmem_end("shmem_init: no memory");
    ftk_shmem_heap_open();
    ftk_shmem_globals_open();
    need("shmem_init", ftk_shmem_heap_register(s->ft));
    need("shmem_init", ftk_shmem_globals_register(s->ft));
    for (int i = 0; i < FTK_SHMEM_SEGMENTS; i++)
        make_window(&s->seg[i]);
}

/* Open the context with the file that FTKIT_CONFIG names, which is no key of ftkit. */
static void open_context(void)
{
    const char *name = getenv("FTKIT_CONFIG");
    char *file = name ? strdup(name) : NULL;
    if ((name && !file) || unsetenv("FTKIT_CONFIG") != 0)
        ftk_shmem_end("shmem_init: no memory");
    need("shmem_init", ftkit_open(MPI_COMM_WORLD, file, &ftk_shmem.ft));
    free(file);
}

/* MPI begins with this level, unless the program has begun it already. */
static void begin_mpi(int level)
{
    int is_open, given;
    refuse_after_mpi("shmem_init");
    MPI_Initialized(&is_open);
    has_begun_mpi = !is_open;
    if (has_begun_mpi)
        MPI_Init_thread(NULL, NULL, level, &given); /* an error ends the job */
}

static void finalize_at_exit(int status, void *arg)
{
    const bool is_child = (pid_t)(intptr_t)arg != getpid(); /* of fork() */
    if (status == 0 && ftk_shmem.ft && !is_child)
        shmem_finalize();
}

static void init(int level)
{
    struct ftk_shmem *s = &ftk_shmem;
    ftkit_info info = { .size = sizeof info };
    uint64_t set = 0;
    if (s->ft)
        ftk_shmem_end("shmem_init: called twice");
    configure();
    begin_mpi(level);
    MPI_Comm_rank(MPI_COMM_WORLD, &s->me);
    open_context();
    need("shmem_init", ftkit_bind_comm(s->ft, &s->comm));
    MPI_Comm_rank(s->comm, &s->me);
    MPI_Comm_size(s->comm, &s->n);
    open_memory();
    need("shmem_init", ftkit_recover(s->ft, &set));
    need("shmem_init", ftkit_query(s->ft, &info));
    s->is_new = info.incarnation > 0;
    s->restored = set > 0 && ftk_shmem_heap_saved();
    s->begins = !s->restored;
    if (on_exit(finalize_at_exit, (void *)(intptr_t)getpid()) != 0)
        ftk_shmem_end("shmem_init: no memory");
    if (s->begins)
        begin();
    if (s->begins && s->me == 0)
        ftk_shmem_describe();
}

void shmem_init(void)
{
    init(MPI_THREAD_SINGLE);
}

/* The message log serves one thread at a time. */
int shmem_init_thread(int requested, int *provided)
{
    init(requested <= SHMEM_THREAD_SINGLE     ? MPI_THREAD_SINGLE
         : requested == SHMEM_THREAD_FUNNELED ? MPI_THREAD_FUNNELED
                                              : MPI_THREAD_SERIALIZED);
    shmem_query_thread(provided);
    return 0;
}

void shmem_query_thread(int *provided)
{
    int level;
    (void)ftk_shmem_ready("shmem_query_thread"); /* only whether the library is open */
    MPI_Query_thread(&level);
    *provided = level == MPI_THREAD_SINGLE     ? SHMEM_THREAD_SINGLE
                : level == MPI_THREAD_FUNNELED ? SHMEM_THREAD_FUNNELED
                                               : SHMEM_THREAD_SERIALIZED;
}

/* ---- the end ------------------------------------------------------------------------- */

/* A PE was lost after the last shmem_checkpoint_all(): this process is the next. */
_Noreturn static void give_up(void)
{
    fprintf(stderr,
        "shmem: PE %d: a PE was lost after the last shmem_checkpoint_all: the job begins "
        "again\n",
        ftk_shmem.me);
    exit(EXIT_FAILURE); /* with an open context this is a loss */
}

void shmem_finalize(void)
{
    struct ftk_shmem *s = &ftk_shmem;
    if (!s->ft && is_finished) /* a second call */
        return;
    (void)ftk_shmem_ready("shmem_finalize"); /* after a loss ftkit_finish() says so */
    (void)ftk_shmem_flush_all("shmem_finalize");
    const int rc = ftkit_finish(s->ft);
    need("shmem_finalize", rc);
    if (rc == FTKIT_HALT)
        ftk_shmem_halt();
    if (rc != FTKIT_OK)
        give_up();
    for (int i = 0; i < FTK_SHMEM_SEGMENTS; i++) {
        if (ftk_shmem_done("shmem_finalize", MPI_Win_unlock_all(s->seg[i].win)))
            (void)ftk_shmem_done("shmem_finalize", MPI_Win_free(&s->seg[i].win));
        free(s->open[i]);
    }
    ftkit_ctx *ft = s->ft;
    s->ft = NULL;
    if (ftkit_close(&ft) < 0) {
        fprintf(stderr, "shmem: PE %d: %s\n", s->me, ftkit_detail(NULL));
        exit(EXIT_FAILURE);
    }
    free(s->lost);
    ftk_shmem_heap_close();
    is_finished = true;
    end_mpi();
}

void start_pes(int npes)
{
    (void)npes; /* the standard ignores this number, too */
    if (!ftk_shmem.ft)
        shmem_init();
}

void shmem_global_exit(int status)
{
    refuse_after_mpi("shmem_global_exit");
    (void)ftkit_abort(MPI_COMM_WORLD, status); /* does not return */
    abort();
}

/* ---- questions ----------------------------------------------------------------------- */

int shmem_my_pe(void)
{
    return ftk_shmem.me;
}

int shmem_n_pes(void)
{
    return ftk_shmem.n;
}

int _my_pe(void)
{
    return ftk_shmem.me;
}

int _num_pes(void)
{
    return ftk_shmem.n;
}

int shmem_pe_accessible(int pe)
{
    return pe >= 0 && pe < ftk_shmem.n;
}

void shmem_info_get_version(int *major, int *minor)
{
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name)
{
    memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING);
}

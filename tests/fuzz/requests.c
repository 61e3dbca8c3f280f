/* The reader of requests in a set: any words.  The inputs are of programs with four ranks and one
 * region. (tests/mpi/ahead.c)
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "core/type.h"
#include "log/coll/coll.h"
#include "log/mode.h"
#include "log/recovery/recovery.h"

#define ROOM (256u << 10)
#define REGION_BYTES (160u << 10)

static struct ftkit_ctx ctx;
static struct ftk_region region = { .name = "memory", .kind = FTK_KIND_FLAT };
static struct ftk_vcomm comms[4]; /* of four ranks each, by context */
static _Alignas(64) char memory[REGION_BYTES];

static MPI_Op op; /* that of the inputs */

static void nothing(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)n, (void)type;
}

static void set_up(void)
{
    MUST(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    MUST(ftk_type_make(MPI_BYTE, &region.type) == FTKIT_OK);
    region.data = memory;
    region.count = sizeof memory;
    ctx.regions.list = &region;
    ctx.regions.n = 1;
    ctx.where = FTK_IN_SETUP;
    for (int i = 0; i < 4; i++)
        comms[i] =
            (struct ftk_vcomm){ .size = 4, .context = i, .next = i < 3 ? &comms[i + 1] : NULL };
    MUST(MPI_Op_create(nothing, 1, &op) == MPI_SUCCESS);
    ftk_log.ctx = &ctx;
    ctx.cfg.replicas = 1;
    ftk_log.n = 4;
    ftk_log.mode = ftk_mode_of(FTK_DETS_NODE);
    ftk_session_begin();
    ftk_log.vcomms.list = ftk_log.vcomms.world = comms;
}

/* A receive writes to the region, if it writes at all. */
static void check_request(const struct ftk_req *r)
{
    const char *p = r->recv.buf;
    if (r->kind == FTK_REQ_RECV && p)
        MUST(p >= memory - REGION_BYTES && p <= memory + 2 * (size_t)REGION_BYTES);
    MUST(r->count >= 0 && r->peer < 4);
}

static void forget(void)
{
    ftk_requests_drop();
    ftk_matched_clear();
    for (int i = 0; i < (int)ftk_req_pool.used; i++) {
        struct ftk_req *r = ftk_req_numbered(i);
        if (r->state == FTK_REQ_FREE)
            continue;
        check_request(r);
        if (r->kind == FTK_REQ_COLL)
            ftk_coll_free(r);
        r->persistent = false;
        ftk_req_delete(r);
    }
    ftk_log.queue.npersistent = 0;
    for (int i = 0; i < 4; i++)
        comms[i].sent = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool ready;
    if (!ready)
        set_up();
    ready = true;
    uint64_t *w = bytes <= ROOM ? malloc(bytes + 1) : NULL; /* of its size: its end is watched */
    if (!w)
        return 0;
    memcpy(w, data, bytes / 8 * 8);
    if (ftk_requests_load(&ctx, w, w + bytes / 8) == FTKIT_OK)
        for (int64_t i = -1; i < 40; i++)
            (void)ftk_requests_back(i);
    forget();
    free(w);
    return 0;
}

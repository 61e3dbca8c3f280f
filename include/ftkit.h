/* ftkit: user-level fault mitigation for MPI programs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Register data regions, call ftkit_checkpoint() in the solver loop, and the program
 * survives the loss of processes: lost ranks are replaced in the running job, the ranks
 * (with the message log, only some of them) roll back to the last committed checkpoint
 * set, and a job that is lost as a whole restarts from HDF5.
 *
 * Conventions of this header
 *   - Every function returns a status code (see FTKIT_STATUS_LIST) unless it says
 *     otherwise.  Codes > 0 are success with news, codes < 0 are errors; the more
 *     negative, the stronger the reaction that is due.
 *   - Outputs come last and are written only on success.
 *   - "Collective" means: every working rank of the context calls it, in the same
 *     order.  Every other call is local.
 *   - The library prints warnings and errors only, to stderr (report.stderr).
 *   - An error of the library never aborts or exits.  ftkit ends a process or the job in these
 *     cases: idle spares end by exit() (spares.exit).  A rank that leaves its program while its
 *     context is open kills itself (recover.exit_is_failure), because MPI would not report its
 *     exit to the others.  A proven mistake that would hang the job ends the job with a line
 *     that names the rule.  The watchdog kills processes that are stuck, and ends jobs that hang
 *     (recover.timeout, recover.stall).  And where the program leaves MPI_ERRORS_ARE_FATAL in
 *     force, errors that no repair explains end the job, as without ftkit.
 *   - Threads: one thread at a time per context.  Two contexts are independent.  With the message
 *     log one thread at a time calls MPI or ftkit, also with MPI_THREAD_MULTIPLE: a call of MPI
 *     while another thread is in a call fails with MPI_ERR_OTHER, and no set is written after that.
 */
#ifndef FTKIT_H
#define FTKIT_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FTKIT_VERSION_MAJOR 0
#define FTKIT_VERSION_MINOR 1
#define FTKIT_VERSION_PATCH 0

#if defined(__GNUC__)
#define FTKIT_API __attribute__((visibility("default")))
#else
#define FTKIT_API
#endif

/** Longest name of a context or a region, in bytes without the final NUL. */
#define FTKIT_NAME_MAX 63
/** Most dimensions of a global array. */
#define FTKIT_DIMS_MAX 15

/* ---- Status codes -----------------------------------------------------------------------
 * One table makes the enum, the texts of ftkit_strerror() and the Fortran constants.
 * Released values never change.  A value that has no use is kept, and its text says so.
 *    > 0          success, with news
 *   -1 .. -19     the call was wrong: fix it; nothing happened
 *  -20 .. -39     this operation failed; the last committed set holds; go on
 *  -40 .. -59     a copy of the data is bad or missing; older copies were tried
 *  -60 .. -79     a rank has failed and the context cannot go on in this job
 *  -80 .. -99     only ftkit_close() is left
 *
 * A context that cannot be repaired ends.  The call in which the context ends returns the
 * cause (FTKIT_ERR_LOST, FTKIT_ERR_PEER ...); in the loop a cause above -40 is returned as
 * FTKIT_ERR_ENDED.  Every later call on the context returns FTKIT_ERR_ENDED and does nothing;
 * ftkit_detail() keeps the first cause.  Only ftkit_query(), ftkit_failures(), ftkit_test(),
 * ftkit_failed(), ftkit_comm() and ftkit_detail() still answer; ftkit_close() returns the first
 * cause. */
#define FTKIT_STATUS_LIST(X)                                                                       \
    X(OK, 0, "success")                                                                            \
    X(ROLLED_BACK, 1, "a failure was repaired; the regions hold the last committed set")           \
    X(NO_SET, 2, "no committed set exists: a fresh start")                                         \
    X(HALT, 3, "the job should stop now; its work is in the last set")                             \
    X(SPARE_DONE, 4, "this process was an idle spare and the job is over")                         \
    X(ESCAPED, 5, "a failure has ended the body before its end; the next step repairs")            \
    X(ERR_ARG, -1, "invalid argument")                                                             \
    X(ERR_NAME, -2, "invalid name")                                                                \
    X(ERR_EXISTS, -3, "the region, attribute or set exists already")                               \
    X(ERR_NOT_FOUND, -4, "no such region or set")                                                  \
    X(ERR_TYPE, -5, "datatype cannot be saved or does not match")                                  \
    X(ERR_SIZE, -6, "size does not match")                                                         \
    X(ERR_STATE, -7, "call out of order")                                                          \
    X(ERR_CONFIG, -8, "invalid configuration")                                                     \
    X(ERR_UNSUPPORTED, -9, "not supported by this build, MPI or mode")                             \
    X(ERR_MISMATCH, -10, "the ranks disagree")                                                     \
    X(ERR_IO, -20, "storage I/O error")                                                            \
    X(ERR_NOSPACE, -21, "no space left")                                                           \
    X(ERR_NOMEM, -22, "out of memory")                                                             \
    X(ERR_CALLBACK, -23, "a callback of the program failed")                                       \
    X(ERR_MPI, -24, "MPI error")                                                                   \
    X(ERR_BUSY, -25, "another job uses the sets")                                                  \
    X(ERR_CORRUPT, -40, "checksum mismatch")                                                       \
    X(ERR_FORMAT, -41, "not an ftkit set, or of another version, program or byte order")           \
    X(ERR_LOST, -42, "no copy of the data survives")                                               \
    X(ERR_PEER, -60, "a rank has failed and was not replaced")                                     \
    X(ERR_TIMEOUT, -61, "reserved, no function returns it: the repair took too long")              \
    X(ERR_CLOSED, -80, "reserved, no function returns it: the context is closed")                  \
    X(ERR_ENDED, -81, "the context has ended: only ftkit_close() is left")                         \
    X(ERR_INTERNAL, -99, "broken invariant inside ftkit")

/** Whether a code is an error after which the program cannot continue: below -39.  After an error
 * from -1 to -39 the last committed set holds, and the loop goes on. */
#define FTKIT_FATAL(code) ((code) < -39)

enum ftkit_status {
#define FTKIT_STATUS_ENUM(name, value, text) FTKIT_##name = (value),
    FTKIT_STATUS_LIST(FTKIT_STATUS_ENUM)
#undef FTKIT_STATUS_ENUM
};

/** Constant English text of a status code; "unknown status" for others, never NULL. */
FTKIT_API const char *ftkit_strerror(int code);

/** Version of the library that is linked, "major.minor.patch". */
FTKIT_API const char *ftkit_version(void);

/* ---- Contexts ---------------------------------------------------------------------------
 * A context protects the data of the ranks of one communicator.  Several contexts may be
 * open, on any communicators.  Of the contexts of one process, only the first repairs
 * failures in the job.  The others are for restarts only (FTKIT_MODE_RESTART): close and open
 * them again after a repair. */

typedef struct ftkit_ctx ftkit_ctx;

/**
 * Open a context.
 *
 * @param[in]  comm    any intracommunicator, most often MPI_COMM_WORLD; it is
 *                     duplicated and stays the caller's
 * @param[in]  config  path of an INI file, or NULL for the defaults: a buddy's memory
 *                     and HDF5 sets under the working directory, automatic period
 * @param[out] ctx     the context; close it with ftkit_close()
 *
 * Collective over comm.  When the configuration asks for spares (spares.count), the spares
 * wait inside this call until they are needed.  A spare then returns from this call as the
 * rank that it replaces.  When the job closes, a spare that was never needed calls
 * MPI_Finalize and exit(0) here (spares.exit = true, the default), or returns
 * FTKIT_SPARE_DONE without a context.
 *
 * In a job of several programs (`mpirun a : b`) spares.count is the number of spares of each
 * program, and may differ between programs; all other settings are the same.  The ranks of the
 * first program come first.  A rank keeps its program: only a spare, or a spawned process, of this
 * program replaces it.  Parts with the same executable, arguments, directory and variables of -x
 * are one program.  Relative paths of the configuration are below the working directory of the
 * first process of comm.
 *
 * Blocking: a few collectives; for spares, until needed or the end of the job.
 * World:    when comm is MPI_COMM_WORLD and has spares, use ftkit_comm() from here on, and
 *           after ftkit_close() too: the spares never join a call on MPI_COMM_WORLD.
 *           Without the message log (and with spares.exit) this call revokes MPI_COMM_WORLD.
 *           A call on MPI_COMM_WORLD then does not hang: it ends the job with a line.
 * Errors:   FTKIT_ERR_STATE: members of comm are spares of a context of this process, and
 *           wait in its ftkit_open(); open a second context on ftkit_comm() of the first
 *           (spares.count has no effect there).  Also FTKIT_ERR_STATE: the process has a
 *           context of this name with sets in this directory open.
 *           FTKIT_ERR_CONFIG: the detail has file, line and the nearest key; the file may
 *           also be log.team_file, which every process reads here.
 *           FTKIT_ERR_MISMATCH, FTKIT_ERR_NOMEM, FTKIT_ERR_MPI, FTKIT_ERR_IO.
 *           ftkit_detail(NULL) has the text.
 */
FTKIT_API int ftkit_open(MPI_Comm comm, const char *config, ftkit_ctx **ctx);

/**
 * Close the context, wait for its background work and free it; *ctx becomes NULL.
 *
 * Collective.  Call this function before MPI_Finalize(), which otherwise closes the context and
 * reports the mistake: exit code 1.  The function waits for a set on its way to the file system.
 * After FTKIT_OK, with level.hdf5.enabled, the run counts as finished: a later start with other
 * arguments of the program, or other argument files, needs recover.start = continue or fresh
 * (ftkit run --continue, --fresh).  Regions stay the caller's.  The context is closed whatever the
 * function returns.
 * @return FTKIT_OK; FTKIT_ERR_MISMATCH as ftkit_finish() returns it;
 *         FTKIT_HALT: the job halts, and no earlier call of this rank has returned that (with
 *         checkpoint.line = apart): the step is not complete, its results are not right;
 *         FTKIT_ERR_IO, FTKIT_ERR_NOSPACE ...: a set could not be written, and no earlier
 *         call has returned that error;
 *         FTKIT_ERR_PEER: a rank failed and was not repaired, so its results are missing
 *         (call ftkit_finish() first to be sure of the results).
 */
FTKIT_API int ftkit_close(ftkit_ctx **ctx);

/**
 * The resilient communicator: the working ranks, numbered from 0, without the spares.
 * A repair replaces it, so ask again after FTKIT_ROLLED_BACK or use ftkit_bind_comm().  Calls on
 * the old one fail, and the third such call in a row ends the job.
 * A failed peer makes its calls return errors, as with MPI_ERRORS_RETURN.  Other errors go
 * to the error handler of the communicator that was given to ftkit_open().  The resilient
 * communicator belongs to ftkit: do not free it.  MPI_COMM_NULL for a NULL context.
 * Cost: nanoseconds.
 */
FTKIT_API MPI_Comm ftkit_comm(const ftkit_ctx *ctx);

/**
 * Store the resilient communicator in *comm now and after every repair, so that the
 * variable is always current.  The variable must live until ftkit_close().
 *
 * @return FTKIT_OK; FTKIT_ERR_ARG: comm is NULL; FTKIT_ERR_STATE: 16 variables are bound already.
 */
FTKIT_API int ftkit_bind_comm(ftkit_ctx *ctx, MPI_Comm *comm);

/* ---- Regions ----------------------------------------------------------------------------
 * A region is a piece of data that every set contains.  Register regions after ftkit_open()
 * and before ftkit_recover(), with the same names on every rank and in every run.  After
 * ftkit_recover() a new name is FTKIT_ERR_STATE in a context that repairs in the job.  Names
 * are the keys in files: 1..63 bytes of printable ASCII without '/'.  The memory stays the
 * caller's.  ftkit_checkpoint() reads it to write a set; a restore writes it, in
 * ftkit_recover() or in a call that repairs.  No other thread of ftkit touches it.
 * The memory may be that of a GPU (CUDA, HIP): the functions take its addresses as they are, and
 * sets do not differ.  A set and a restore wait for all work of the context of the GPU, or for a
 * stream (ftkit_device_stream()).  An error there that ends this context: see device.fault in the
 * configuration.  Variables that ftkit reads itself (of requests, messages, communicators, windows,
 * offsets and growing regions) are FTKIT_ERR_ARG in such memory, except in managed memory. */

/**
 * Register count items of an MPI datatype at data, different on every rank.
 *
 * @param type  a predefined type or a derived one (vectors, subarrays, structs ...):
 *              holes of a derived type are neither saved nor touched.  The type may be
 *              freed after the call.
 * Errors: FTKIT_ERR_ARG, FTKIT_ERR_NAME, FTKIT_ERR_EXISTS, FTKIT_ERR_TYPE.
 */
FTKIT_API int ftkit_register(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type);

/**
 * Register data that have the same value on every rank (a step counter, parameters).
 * Writing a set checks that the values are the same.  The region can be restored on any
 * number of ranks.  Otherwise as ftkit_register().
 */
FTKIT_API int ftkit_register_replicated(
    ftkit_ctx *ctx, const char *name, void *data, size_t count, MPI_Datatype type);

/**
 * Register this rank's block of a global array (C order: the last dimension varies
 * fastest).
 *
 * @param data    first element of the block in memory, halo included:
 *                [local[0]+2*halo[0]] x ... x [local[ndims-1]+2*halo[ndims-1]]
 * @param elem    predefined datatype
 * @param global  shape of the whole array, the same on every rank [ndims]
 * @param local   shape of this rank's block without halo, may contain 0 [ndims]
 * @param offset  where the block begins in the whole array [ndims]
 * @param halo    width of the ghost layer on each side, or NULL for none [ndims]
 *
 * The blocks of all ranks must not overlap.  The first set, and the first one after a rank
 * has registered another block, compares them: ftkit_checkpoint() returns
 * FTKIT_ERR_MISMATCH, and the detail names two ranks and a cell.  Cells in no block get a
 * warning: a restart on another number of ranks needs blocks without these cells.
 * The whole array is one dataset in HDF5 and
 * can be restored on any number of ranks.  On as many ranks as wrote it, blocks and halos
 * must be the same, and ghost cells are restored with the block.  On another number of
 * ranks, blocks and halos may differ, and ghost cells are untouched: exchange the halo.
 * A second call with the same name replaces block and memory (for a new decomposition, in
 * the callback of ftkit_on_repair()); global must stay the same.
 */
FTKIT_API int ftkit_register_array(ftkit_ctx *ctx, const char *name, void *data, MPI_Datatype elem,
    int ndims, const size_t *global, const size_t *local, const size_t *offset, const size_t *halo);

/**
 * Called when a restore needs memory for count items.  Makes *data that large, as realloc()
 * would, and returns 0.  Any other value fails the restore.
 */
typedef int ftkit_resize_fn(void **data, size_t count, void *arg);

/**
 * Register data that grow and shrink between checkpoints: *data and *count are read at every
 * checkpoint.  When *count differs from the saved count, a restore calls resize, then sets
 * *count.  With resize = NULL the restore calls realloc(): then *data must come from malloc(),
 * and the type must have no bytes in front of its address.  Memory of a GPU with resize = NULL: the
 * restore is FTKIT_ERR_ARG unless *count is the saved count.
 */
FTKIT_API int ftkit_register_growing(ftkit_ctx *ctx, const char *name, void **data, size_t *count,
    MPI_Datatype type, ftkit_resize_fn *resize, void *arg);

/** An object of the program that keeps its items in one piece of memory, and knows where: a
 * std::vector, an array of an interpreter.  The functions get the arg of
 * ftkit_register_container(), and do not communicate. */
typedef struct ftkit_container {
    size_t size;                            /**< sizeof(ftkit_container) */
    void *(*data)(void *arg);               /**< the first item; anything if there is none */
    size_t (*count)(void *arg);             /**< items that the object has */
    int (*resize)(void *arg, size_t count); /**< let it have so many, of any value; 0: done */
    size_t bytes;                           /**< of the object itself at arg: debug.check does not
                                                  report it; 0: not known */
} ftkit_container;

/**
 * Register an object whose number of items may differ between checkpoints and between ranks, as
 * ftkit_register_growing(), with functions in place of variables.
 *
 * @param ops   copied by the call
 * @param arg   given to the functions; the object stays the caller's
 * @param type  of an item, as for ftkit_register()
 *
 * data() and count() are called in every checkpoint, and where a request or a window looks for
 * its memory; resize() in a restore that needs another number of items.
 *
 * Local.  Errors: as ftkit_register(); FTKIT_ERR_ARG: ops is NULL, a function is missing, or size
 * is not set.
 * Errors of a restore: FTKIT_ERR_CALLBACK: resize() has failed, or count() is another number
 * afterwards.
 */
FTKIT_API int ftkit_register_container(
    ftkit_ctx *ctx, const char *name, const ftkit_container *ops, void *arg, MPI_Datatype type);

/** Callbacks for data that are not one flat array.  Each returns 0; any other value fails
 * the call. */
typedef struct ftkit_serializer {
    size_t size;                                             /**< sizeof(ftkit_serializer) */
    int (*measure)(void *arg, size_t *bytes);                /**< bytes pack() will write */
    int (*pack)(void *arg, void *buf, size_t bytes);         /**< write exactly bytes */
    int (*unpack)(void *arg, const void *buf, size_t bytes); /**< read them back */
} ftkit_serializer;

/** Register an object that saves itself through callbacks (copied by the call). */
FTKIT_API int ftkit_register_serializer(
    ftkit_ctx *ctx, const char *name, const ftkit_serializer *ops, void *arg);

/**
 * Register a file to which this rank appends, so that a rollback shortens the file: the steps that
 * are repeated write their lines again.
 *
 * @param path    of the file, on a file system that all nodes see; copied.  One rank (with
 *                replicas one process) writes to it.  NULL or "": this rank has no file; all ranks
 *                make this call, because all have the same regions.
 * @param offset  the program's variable: the bytes of the file that belong to the state.  At each
 *                set the file must have just so many.  A restore sets the variable to its value at
 *                the set, and shortens the file to that.  A fresh start shortens the file to the
 *                value that the variable has in ftkit_recover() or the first ftkit_step().
 *
 * Open the file for appending (O_APPEND, "a", std::ios::app), so that what is written next goes to
 * its end, and write out all data before ftkit_step():
 *
 *     fflush(f); at = ftello(f);
 *
 * ftkit does not call fsync(): if a node may be lost with data that it has not written, call that
 * before a set.  A file that is shorter than at the set is FTKIT_ERR_IO in a restore.
 *
 * Local.  Errors: as ftkit_register_serializer(); FTKIT_ERR_NOMEM.
 * Errors of ftkit_checkpoint(): FTKIT_ERR_STATE: the file has another size than *offset (the
 * detail names both); FTKIT_ERR_IO.  No set is written, and nothing is lost.
 */
FTKIT_API int ftkit_register_offset(
    ftkit_ctx *ctx, const char *name, const char *path, int64_t *offset);

/** Callbacks for files that the program writes itself.  They get the arg of
 * ftkit_register_files(), and do not communicate.  Each returns 0; any other value fails the call.
 * dir is the path of a directory of this rank on the memory file system of its node. */
typedef struct ftkit_files {
    size_t size;                              /**< sizeof(ftkit_files) */
    int (*write)(void *arg, const char *dir); /**< make files below dir, which is empty */
    int (*read)(void *arg, const char *dir);  /**< the same files, of the restored set */
} ftkit_files;

/**
 * Register files that the program writes itself, such as its own restart files: every set has them,
 * in memory as on the file system, and a restore lays them out again.
 *
 * @param ops  copied by the call; NULL: the program gives the files by ftkit_files_begin() and
 *             ftkit_files_end(), and takes them back by ftkit_files_read()
 * @param arg  given to the functions
 *
 * A set has the regular files and the directories below dir: their names, permissions and bytes,
 * not their times and owners.  No files at all are right, too, for a rank that has nothing to save.
 * Names and number may differ from set to set and from rank to rank.
 * When a set is written, ftkit_checkpoint() calls write, and takes the files behind it.  All files
 * must be closed then.  When a set is restored, ftkit lays out the files, and calls read.  Other
 * regions may be restored before or after that.  After both calls dir is emptied, so the program
 * keeps no file of it open.
 * Both functions run while other ranks may be anywhere: they must not call MPI, or functions of
 * ftkit.  Use ops = NULL if writing or reading communicates.
 * A set that another number of ranks wrote is refused, unless ftkit_files_any_ranks() allows it.
 * dir is below files.directory, which has to have room for the files of all ranks of the node,
 * beside the sets.  The next process removes the directories of processes that were killed.
 *
 * Local.  Memory: the bytes of the files are a part of the registered bytes.
 * Errors: as ftkit_register(); FTKIT_ERR_ARG: a function is missing, or size is not set;
 *         FTKIT_ERR_UNSUPPORTED: ops is NULL with replicas (replicas.count) or lines apart
 *         (checkpoint.line);
 *         FTKIT_ERR_IO, FTKIT_ERR_NOSPACE: no directory can be made in files.directory.
 * Errors of ftkit_checkpoint(), after which no set is written and nothing is lost; the detail names
 * the file: FTKIT_ERR_CALLBACK: write has failed; FTKIT_ERR_NOSPACE: write has failed, and the file
 * system of files.directory is full, or errno says that it was; FTKIT_ERR_UNSUPPORTED: a symbolic
 * link, a device, a socket or a pipe; FTKIT_ERR_NAME: a path below dir of more than 255 bytes;
 * FTKIT_ERR_STATE: a file changes while it is taken; FTKIT_ERR_IO: a file cannot be read.
 * Errors of a restore: FTKIT_ERR_CALLBACK: read has failed; FTKIT_ERR_NOSPACE: files.directory is
 * full; FTKIT_ERR_FORMAT: another function has saved the region.
 */
FTKIT_API int ftkit_register_files(
    ftkit_ctx *ctx, const char *name, const ftkit_files *ops, void *arg);

/**
 * Begin to write the files of the next set, where that needs communication.  For files that were
 * registered without callbacks:
 *
 *     while (ftkit_step(ft, &rc)) {
 *         if (rc == FTKIT_ROLLED_BACK
 *             && (ftkit_files_read(ft, "restart", dir, sizeof dir) != FTKIT_OK
 *                 || read_restart(dir, comm) != 0)
 *             && !ftkit_confirm(ft)) // no other rank was lost meanwhile
 *             ftkit_abort(comm, 1);  // the state is not that of the set
 *         ...
 *         if (ftkit_due(ft) > 0) {
 *             ftkit_files_begin(ft, "restart", dir, sizeof dir);
 *             ftkit_files_end(ft, "restart", write_restart(dir, comm) == 0);
 *         }
 *     }
 *
 * @param[out] dir   path of an empty directory of this rank, with a NUL at its end [room]; the
 *                   directory stays the same in the life of the process
 * @param      room  bytes at dir; 1100 are always enough
 *
 * The files are those of the next call of ftkit_step(), and of no later one.
 * If that call writes no set, they stay until ftkit_files_begin() or ftkit_files_end().  A set that
 * is due without files is FTKIT_ERR_STATE, and is not written.  The first set of ftkit_step() needs
 * no files: ranks that return to it begin again (FTKIT_NO_SET).  Loops without ftkit_step() have no
 * such set, and ftkit_recover() refuses them (FTKIT_ERR_UNSUPPORTED), unless the job has the
 * message log or FTKIT_MODE_RESTART, or repairs nothing (recover.supply = end without spares).
 *
 * Local.
 * Errors: FTKIT_ERR_NOT_FOUND: no such files; FTKIT_ERR_STATE: they have callbacks; FTKIT_ERR_SIZE:
 *         the path is too long for dir; FTKIT_ERR_IO: the directory cannot be emptied.
 */
FTKIT_API int ftkit_files_begin(ftkit_ctx *ctx, const char *name, char *dir, size_t room);

/**
 * The files of ftkit_files_begin() are written and closed.
 *
 * @param ok  0: they are of no use, because writing has failed, for instance because of a lost
 *            rank.  They are removed.
 *
 * Local.  Errors: as ftkit_files_begin(); FTKIT_ERR_STATE: no ftkit_files_begin() stands before, or
 *         a set was restored since then.
 */
FTKIT_API int ftkit_files_end(ftkit_ctx *ctx, const char *name, int ok);

/**
 * Find the files of the set that was restored.
 *
 * @param[out] dir   path of the directory, with a NUL at its end [room]
 * @param      room  bytes at dir
 * @return FTKIT_OK; FTKIT_NO_SET: no set was restored, or it is the first one of ftkit_step(),
 *         which has no files; or an error
 *
 * The files stay until ftkit_files_begin() or ftkit_files_end().  The program may read them at once
 * or later, and together with other ranks where all ranks roll back.
 *
 * Local.  Errors: as ftkit_files_begin(); FTKIT_ERR_SIZE: also when another number of ranks wrote
 *         the set: see ftkit_files_any_ranks().
 */
FTKIT_API int ftkit_files_read(ftkit_ctx *ctx, const char *name, char *dir, size_t room);

/** Reads files of a set that another number of ranks wrote: old_ranks.  The function asks for them
 * by ftkit_files_of(), and calls nothing else of ftkit, and no MPI.  0; any other value fails the
 * restore.  arg, name: of ftkit_register_files(). */
typedef int ftkit_files_ranks_fn(void *arg, ftkit_ctx *ctx, const char *name, int old_ranks);

/**
 * Let files be restored on another number of ranks than wrote them.  Without this call such a
 * restart is FTKIT_ERR_SIZE.
 *
 * @param read  called in place of the read of ftkit_files, on each rank.  NULL for files that were
 *              registered without callbacks: after FTKIT_ROLLED_BACK the program looks at
 *              ftkit_files_ranks()
 *
 * All ranks make this call, after ftkit_register_files(), and before ftkit_recover() or
 * ftkit_step().  Any rank can have the files of any old rank, of several ones, or none: the
 * program decides who reads what.  They come from the set on the file system, with files.plain or
 * without.  So a job that has shrunk goes on by them if the set is complete there, and the message
 * log and replicas need as many ranks as before.
 * Other regions that are neither replicated nor global arrays still refuse such a restart.
 *
 * Local.
 * Errors: FTKIT_ERR_NOT_FOUND: no such files; FTKIT_ERR_STATE: after ftkit_recover() or
 *         ftkit_step(); FTKIT_ERR_ARG: read is missing, or given for files without callbacks.
 * Errors of a restore: as ftkit_register_files(); FTKIT_ERR_LOST: the set is in memory alone.
 */
FTKIT_API int ftkit_files_any_ranks(ftkit_ctx *ctx, const char *name, ftkit_files_ranks_fn *read);

/**
 * The number of ranks whose files can be had by ftkit_files_of(): old ranks 0 to *ranks - 1.
 *
 * @return FTKIT_OK: another number of ranks wrote the set that was restored; FTKIT_NO_SET: as many
 *         ranks, no set was restored, or a newer set is committed; or an error
 *
 * Local.  Errors: FTKIT_ERR_NOT_FOUND: no such files; FTKIT_ERR_ARG: ranks is NULL.
 */
FTKIT_API int ftkit_files_ranks(ftkit_ctx *ctx, const char *name, int *ranks);

/**
 * Have the files of a rank of the set that another number of ranks wrote.
 *
 * @param      old_rank  0 to ftkit_files_ranks() - 1
 * @param[out] dir       path of a directory with these files, of this call and this process alone,
 *                       with a NUL at its end [room]
 * @param      room      bytes at dir; 1100 are always enough
 * @return FTKIT_OK; FTKIT_NO_SET: there are no files: ftkit_files_ranks() has none, or the set is
 *         the first one of ftkit_step(); or an error
 *
 * Names, permissions and bytes are those that the old rank wrote; names, lengths and checksums are
 * compared.  The program may change and remove these files, and does so when files.directory is
 * small.  They stay until the function of ftkit_files_any_ranks() returns; without callbacks until
 * ftkit_files_begin() or ftkit_files_end().  The same rank again: the same directory, made anew.
 *
 * Local, reads files.  Memory: the bytes of these files twice, once in files.directory.
 * Errors: FTKIT_ERR_NOT_FOUND: no such files; FTKIT_ERR_ARG: there is no such rank, or dir is NULL;
 *         FTKIT_ERR_SIZE: the path is too long for dir; FTKIT_ERR_STATE: files of the next set are
 *         begun; FTKIT_ERR_LOST: the set is gone since the restore; FTKIT_ERR_CORRUPT,
 *         FTKIT_ERR_FORMAT: it is damaged since then; the detail names region and rank, and the
 *         file with files.plain;
 *         FTKIT_ERR_IO, FTKIT_ERR_NOSPACE, FTKIT_ERR_NOMEM.  No files are there then.
 */
FTKIT_API int ftkit_files_of(
    ftkit_ctx *ctx, const char *name, int old_rank, char *dir, size_t room);

/**
 * Register files that all ranks write together, such as one file of MPI-IO or of parallel HDF5.
 * Every set has them, in memory as on the file system, as those of ftkit_register_files().
 *
 * The program writes them between ftkit_files_begin() and ftkit_files_end(), and reads them after
 * ftkit_files_read(), as files without callbacks.  But dir is the same directory on all ranks, and
 * these three calls are collective: all ranks make them, in the same order, inside of the loop.
 * Each rank closes its files before ftkit_files_end().  Then a set takes them: each rank keeps a
 * slice of the bytes, so the directory only passes them on.  It is below level.hdf5.directory,
 * which all nodes see; the set may go to the file system or not.  There must be room for the files
 * there, and once more for them in a restore.
 * A set is restored on any number of ranks: ftkit_files_read() lays out the same files, if the set
 * is complete on the file system where the number has changed.
 * A library that has communicators of its own, as MPI-IO has for each open file, may wait there for
 * a rank that is lost.  docs/files.md has the settings with which such a job ends, and is
 * relaunched.
 *
 * Local.  All ranks make this call.  Memory: the names of all files, and the bytes of the files
 * divided by the number of ranks, are a part of the registered bytes; between a restore and
 * ftkit_files_read() once more.
 * Errors: as ftkit_register(); FTKIT_ERR_UNSUPPORTED: level.hdf5 is off, or the job has the message
 *         log (log.enabled) or replicas (replicas.count); FTKIT_ERR_SIZE: the path of the directory
 *         would be longer than 1100 bytes.
 * Errors of the three calls are the same on all ranks, unless a rank is lost: FTKIT_ERR_PEER; go on
 * to ftkit_step(), which repairs.  FTKIT_ERR_STATE: also outside of the loop, or the ranks see
 * different files; FTKIT_ERR_MISMATCH: the ranks are in different calls; FTKIT_ERR_CALLBACK: ok is
 * 0 on a rank; FTKIT_ERR_BUSY: another job owns the sets; FTKIT_ERR_LOST, FTKIT_ERR_CORRUPT: the
 * set of another number of ranks is gone or damaged since the restore; FTKIT_ERR_IO,
 * FTKIT_ERR_NOSPACE, FTKIT_ERR_NOMEM.
 * Errors of ftkit_checkpoint(): as ftkit_register_files().
 */
FTKIT_API int ftkit_register_joint_files(ftkit_ctx *ctx, const char *name);

/**
 * Register a variable that holds a communicator made inside the loop.
 *
 * @param comm  the variable; read at every checkpoint, set by a restore.  The variable and
 *              the communicator stay the caller's.
 *
 * With the message log a restore sets the variable to the communicator that it held at the
 * set, with the same members and topology.  This holds in a replacement, too, and the other
 * ranks need not call anything.  Attributes, names and error handlers are not restored.
 * Without the message log communicators do not survive a restore: the variable becomes
 * MPI_COMM_NULL on all ranks, and the program makes the communicator again.  Communicators
 * that the program makes before ftkit_recover() need not be registered.
 * Errors: as ftkit_register().
 */
FTKIT_API int ftkit_register_comm(ftkit_ctx *ctx, const char *name, MPI_Comm *comm);

/**
 * Register a variable that holds a window made inside the loop.
 *
 * @param win  the variable; read at every checkpoint, set by a restore.  The variable stays the
 *             caller's.
 *
 * With the message log a restore sets the variable to the window that it held at the set, or to
 * MPI_WIN_NULL.  This holds in a replacement, too, and the other ranks need not call anything.
 * The memory of MPI_Win_create must be inside one region, in ftkit_register(),
 * ftkit_register_array() or ftkit_register_growing(), whose datatype has no holes there.  The
 * memory of MPI_Win_allocate is in every set; a replacement has it at another address, which is
 * the attribute MPI_WIN_BASE.  Memory that is attached to a dynamic window is attached again.
 * Attributes, hints, names and error handlers are not restored.  A window that the loop has made
 * since the set is freed when its variable is restored, with its memory of MPI_Win_allocate.
 * With several contexts, register the variable with the context that has the message log.
 * Without the message log windows do not survive a restore: the variable becomes MPI_WIN_NULL on
 * all ranks, and the program makes the window again.  Windows that the program makes before
 * ftkit_recover() need not be registered.
 *
 * Local.  Errors: as ftkit_register().
 * Errors of ftkit_checkpoint(): FTKIT_ERR_STATE: the memory of MPI_Win_create is not inside one
 * region, or the window has an epoch that a set cannot have.  The detail names the window; no set
 * is written, and nothing is lost.
 * Errors of a restore: FTKIT_ERR_NOT_FOUND: the region of the memory is not registered;
 * FTKIT_ERR_SIZE: it is smaller than the memory.
 */
FTKIT_API int ftkit_register_window(ftkit_ctx *ctx, const char *name, MPI_Win *win);

/**
 * Register n variables that hold requests.  The requests may then be under way at
 * ftkit_checkpoint(): receives that are posted ahead, started persistent requests, non-blocking
 * collectives, requests that are complete and not waited for.
 *
 * @param requests  the variables [n]; read at every checkpoint, set by a restore.  Each holds a
 *                  request or MPI_REQUEST_NULL; two may hold the same request.  They stay the
 *                  caller's.
 *
 * With the message log (log.enabled) a restore sets each variable to the request that the
 * variable held at the set: an incomplete receive is posted again, a collective continues, and a
 * wait for a request that was complete returns at once with its status.  Persistent requests that
 * the loop makes are made again; requests that the program makes before ftkit_recover() stay.
 * Every request that ftkit_checkpoint() finds under way, or complete and not waited for, must be
 * in a registered variable, unless the program has freed the request.  The memory into which a
 * receive or a collective writes must be inside one region, in ftkit_register(),
 * ftkit_register_array() or ftkit_register_growing(), whose datatype has no holes there: the
 * request is restored with this memory.  A request that the program begins before ftkit_recover()
 * in a registered variable is given up when a set is restored.
 * Without the message log requests do not survive a restore: the variables become
 * MPI_REQUEST_NULL on all ranks, and a request under way at a set is FTKIT_ERR_STATE.
 *
 * Local.  Errors: as ftkit_register().
 * Errors of ftkit_checkpoint(): FTKIT_ERR_STATE: a request is in no registered variable, or its
 * memory is in no region, in a replicated one or in a hole; FTKIT_ERR_ARG: a variable holds a
 * request that is not of the program's messages (of a file, a window, another library);
 * FTKIT_ERR_UNSUPPORTED: the set cannot have the request (MPI_Comm_idup, an operation made in the
 * loop, a communicator that is freed).  The detail names the request; no set is written, and
 * nothing is lost.
 * Errors of a restore: FTKIT_ERR_SIZE: the region is smaller than the memory of the request.
 * Source: requests in a table with stable names, saved with the set [Schulz et al., SC 2004, 4.1].
 */
FTKIT_API int ftkit_register_requests(
    ftkit_ctx *ctx, const char *name, MPI_Request *requests, size_t n);

/** The same for messages that MPI_Mprobe or MPI_Improbe has matched and no call has received. */
FTKIT_API int ftkit_register_messages(
    ftkit_ctx *ctx, const char *name, MPI_Message *messages, size_t n);

/** Change address and count of a region of ftkit_register(), e.g. after realloc().  In a
 * context that repairs in the job, a new count after ftkit_recover() is FTKIT_ERR_STATE: use
 * ftkit_register_growing() for data whose size changes in the loop. */
FTKIT_API int ftkit_resize(ftkit_ctx *ctx, const char *name, void *data, size_t count);

/** Forget a region.  Sets that contain the region stay; a restore ignores the region.  Do not
 * call this function in the loop: a replacement registers the region again, and does not find
 * it in sets that were written since. */
FTKIT_API int ftkit_unregister(ftkit_ctx *ctx, const char *name);

/**
 * Name the stream of a GPU whose work on a region is to be over before a set or a restore accesses
 * the region.  Without this call both wait for all streams of the context.
 *
 * @param region  a registered region whose memory is now that of a GPU
 * @param stream  CUstream, cudaStream_t or hipStream_t, which stays the caller's and exists as long
 *                as the region is registered; NULL: all streams again
 *
 * All work that writes the region is on this stream, or the stream waits for that work by an event.
 * The same holds for work that reads the region, for a restore.  If all regions in memory of GPUs
 * have streams, work on other streams goes on during a set, and so does the capture of a graph
 * there.  A set while the stream itself is captured is FTKIT_ERR_STATE; the capture goes on.
 *
 * Local; at any time, and each process calls it for itself: a replacement has streams of its own.
 * Errors: FTKIT_ERR_NOT_FOUND (no such region), FTKIT_ERR_NAME, FTKIT_ERR_ARG (host memory, or no
 *         stream, if the driver knows that), FTKIT_ERR_IO (the GPU has an error).
 */
FTKIT_API int ftkit_device_stream(ftkit_ctx *ctx, const char *region, void *stream);

/** How ftkit_compare() lets the replicas of a rank compare a region. */
enum ftkit_compare_how {
    FTKIT_COMPARE_EXACT = 0, /**< bit by bit (default) */
    FTKIT_COMPARE_OFF = 1    /**< not at all: timers, addresses, and other data of one process */
};

/**
 * Say how a region is compared between the replicas of a rank (replicas.count).
 *
 * @param region  a registered region
 * @param how     enum ftkit_compare_how
 *
 * Without this call the region is compared bit by bit before each set is committed, padding in its
 * items included.  Without replicas the call does nothing.
 *
 * Local; before ftkit_recover(), the same on every rank.
 * Errors: FTKIT_ERR_NOT_FOUND (no such region), FTKIT_ERR_ARG, FTKIT_ERR_NAME, FTKIT_ERR_STATE
 *         (after ftkit_recover() in a context that repairs in the job).
 * Source: comparing checkpoints of replicas [Ni et al., ACR, SC 2013].
 */
FTKIT_API int ftkit_compare(ftkit_ctx *ctx, const char *region, int how);

/**
 * Attach a text to a region, such as "units" = "m/s", for readers of the files.  The text is
 * an HDF5 attribute of the region's dataset in master.h5 and in the parts.
 *
 * @param region  a registered region
 * @param name    1..63 bytes of printable ASCII without '/', not beginning with "ftkit."
 * @param value   up to 255 bytes of UTF-8 text
 *
 * Local; before ftkit_recover(), the same on every rank: master.h5 has the text of rank 0.
 * Both texts are copied.  Attributes are no state: a restore ignores those in the set, and
 * sets written from now on have the attributes of this run.
 * Errors: FTKIT_ERR_NOT_FOUND (no such region), FTKIT_ERR_ARG, FTKIT_ERR_NAME,
 *         FTKIT_ERR_EXISTS (the region has the attribute already), FTKIT_ERR_SIZE (the value
 *         is too long, or all attributes together have more than 1 MiB), FTKIT_ERR_STATE
 *         (after ftkit_recover() in a context that repairs in the job), FTKIT_ERR_NOMEM.
 */
FTKIT_API int ftkit_attribute(
    ftkit_ctx *ctx, const char *region, const char *name, const char *value);

/* ---- Checkpoint and recovery ------------------------------------------------------------
 * A set is one numbered snapshot of every region on every rank.  It is committed as a
 * whole or it does not exist. */

/**
 * The head of the solver loop: recovers, writes a set when one is due, repairs and rolls back when
 * a rank has failed, and waits for the other ranks at the end.
 *
 *     int rc;
 *     while (ftkit_step(ft, &rc)) {
 *         if (rc < 0) fprintf(stderr, "%s\n", ftkit_detail(ft));
 *         if (rc == FTKIT_NO_SET) initialise(comm);
 *         if (step >= nsteps) { ftkit_end(ft); continue; }
 *         compute(comm);
 *         step++;
 *     }
 *
 * The first call is ftkit_recover() and ftkit_checkpoint(); do not call ftkit_recover() yourself.
 * Each later call is ftkit_checkpoint(), and after ftkit_end() ftkit_finish().  A survivor, a
 * replacement and a rank of a restarted job enter the body in the same way, directly after this
 * call, and with the same code.
 *
 * @param[out] code  always written.  In the body (this call has returned 1):
 *                   FTKIT_OK: nothing has happened.
 *                   FTKIT_NO_SET: the initial state.  This is the first step of a fresh start, or
 *                   the ranks are back at the set of that first step.  Set-up that communicates may
 *                   stand here; what it makes must be registered.
 *                   FTKIT_ROLLED_BACK: the regions hold a set, after a repair or at the first call
 *                   of a job that continues an earlier one.  Set again what is not registered.
 *                   An error from -1 to -39: a set was not written, go on.
 *                   After the loop (this call has returned 0): FTKIT_OK: all ranks have come to the
 *                   end; FTKIT_HALT as of ftkit_checkpoint(); else an error.
 * @return 1: execute the body; 0: leave the loop, and call ftkit_close().
 *
 * Without the message log and without replicas all ranks enter with FTKIT_NO_SET or
 * FTKIT_ROLLED_BACK together, so they may communicate there.  With either of these two, only some
 * ranks enter with FTKIT_ROLLED_BACK: do not communicate there, and make communicators in the
 * callback of ftkit_on_repair().  FTKIT_NO_SET is all right in any case.
 *
 * An error of the first set comes in the second call, because the code of the first call is the
 * news.  The sets have one replicated region more, "ftkit.step", which says whether the set is that
 * of the first step.
 * Collective, blocking, errors: as the three calls.  One loop in the life of a context; otherwise
 * FTKIT_ERR_STATE.
 */
FTKIT_API int ftkit_step(ftkit_ctx *ctx, int *code);

/**
 * In the body of a loop with ftkit_step(): this rank has come to the end of its work.  The next
 * ftkit_step() waits until all ranks have come to the end.  It returns 0 then.  If a rank fails
 * meanwhile it returns 1, and the rank is in an earlier step again: so let `continue` follow this
 * call, and let the exit test stand at the top of the body.
 *
 * Local.
 * Errors: FTKIT_ERR_STATE: not in the body of such a loop; FTKIT_ERR_ARG, FTKIT_ERR_ENDED.
 */
FTKIT_API int ftkit_end(ftkit_ctx *ctx);

/**
 * The call in the loop of a program that does without ftkit_step(): writes a set when one is due,
 * repairs and rolls back when a rank has failed, and otherwise returns at once.
 *
 * Returns FTKIT_OK, or FTKIT_ROLLED_BACK after a repair: lost ranks are replaced, and every
 * region holds the last committed set; continue with the loop.  Returns FTKIT_HALT on all ranks in
 * the same call when a signal, `ftkit halt` or checkpoint.deadline has asked the job to stop: a
 * set is complete on the file system; leave the loop without ftkit_finish(), and call
 * ftkit_close().
 * Every later call returns FTKIT_HALT, too, and so do ftkit_wait(), ftkit_scrub() and
 * ftkit_finish().  With checkpoint.line = apart the set of a halt is committed in a call of MPI.
 * From then on the program's calls of MPI fail, so the results of the step are not right.  The
 * first of these calls of ftkit, or ftkit_close(), returns FTKIT_HALT.  After an error from -1
 * to -39 the program may continue: print ftkit_detail(), and leave the loop only when
 * FTKIT_FATAL() holds.
 *
 * Place:      best at the top of the loop and before the exit test, so that no communication
 *             stands between ftkit_recover() and the first call.  At the bottom the call
 *             works, too, when a step counter is registered as replicated.
 * Data:       between a failure and this call the program computes on receive buffers that
 *             nobody filled.  Register, or set again after FTKIT_ROLLED_BACK, everything that
 *             the loop writes to, also work arrays with constants that are set once.  A check
 *             of the program that fails in between asks ftkit_confirm().
 * Collective: the n-th call of one rank belongs to the n-th call of every other rank.  With
 *             checkpoint.line = apart this holds until the job has its first set.  From then on
 *             the ranks may call at different places, and not equally often.
 * Blocking:   when nothing is due, about 100 ns and no communication; every checkpoint.react
 *             one small vote of all ranks.  When a set is due, until the set is committed and
 *             survives the loss of any one process.  A set that is also due on the file system
 *             is written there by a helper thread (level.hdf5.asynchronous) and becomes complete
 *             without a further call.  The thread writes one set at a time; a set that becomes
 *             due there meanwhile stays in memory, and a later set is written there instead.
 *             With checkpoint.line = apart, after the first set: as long as this rank copies
 *             and checksums its regions, without waiting for others.  The set is committed
 *             later, in a call of MPI or ftkit.  That call waits for the other ranks only when
 *             the set goes to the file system and there is no helper thread.
 * Memory:     with buddies, per rank: 2 x the registered bytes in steady state, 4 x while a
 *             set is committed; 4 x at all times in a place other than memory.  While a set is
 *             written to the file system, 1 x more, and on each rank that writes for others
 *             also the bytes of one rank.  With checkpoint.line = apart the 4 x last from the
 *             copy of the regions to the commit.
 * Errors:     FTKIT_ERR_IO, FTKIT_ERR_NOSPACE, FTKIT_ERR_NOMEM: the set was not written (at
 *             all, or to one level), the last one holds, the program may continue.  Errors of
 *             the helper threads are returned by the next call that writes a set, with the
 *             same code on all ranks; that set itself is committed.
 *             With checkpoint.line = apart an error of a set comes once on each rank, in its
 *             next call, and a replay of that call returns FTKIT_OK.
 *             FTKIT_ERR_MISMATCH: the ranks disagree on replicated regions or arrays, or are
 *             at different calls; no new set.  Not with checkpoint.line = apart after the first
 *             set: there regions and calls are not compared.
 *             After an error of the set in memory the next set is due after
 *             checkpoint.period, or at ftkit_request().
 *             FTKIT_ERR_STATE: with log.enabled a rank has a request under way, or has
 *             matched a message that it has not received, and has not registered the variable
 *             or the memory (ftkit_register_requests()).  No new set; nothing is lost.  The
 *             first call after these operations are complete writes the set.
 *             FTKIT_ERR_BUSY: another job has taken the sets on the file system, because
 *             this job was silent for too long.  FTKIT_ERR_EXISTS: the file system has a set
 *             of this number that is not of this job.  In both cases the set is committed in
 *             memory only.  With a helper thread the next call returns these errors, too.
 *             FTKIT_ERR_LOST, FTKIT_ERR_PEER: the job must end; its files are unchanged.
 * Source:     two slots and commit by agreement; buddy copies as in Zheng et al.,
 *             Cluster 2004; sets as in Moody et al., SC 2010.
 */
FTKIT_API int ftkit_checkpoint(ftkit_ctx *ctx);

/**
 * Load the newest set into the regions: in a replacement the set to which the others roll
 * back, in a restarted job the newest complete set (on the file system, or in a place that
 * outlives the processes, see level.memory.place).
 *
 * @param[out] set  its number, 0 with FTKIT_NO_SET; or NULL
 * @return FTKIT_OK, FTKIT_NO_SET (a fresh start; the regions are untouched), or an error
 *
 * Call this function once on every rank, after the regions are registered and before the
 * loop.  Do not communicate between ftkit_open() and this call: a replacement runs this part
 * alone.  Steps that need communication (communicators, decompositions) belong in the
 * callback of ftkit_on_repair(), which this call runs first.
 * Errors: FTKIT_ERR_NOT_FOUND, FTKIT_ERR_SIZE, FTKIT_ERR_TYPE: a region, named in the detail,
 *         does not fit the saved data; FTKIT_ERR_NOT_FOUND also: the set of recover.start does
 *         not exist; FTKIT_ERR_FORMAT: a set of another program, or as ftkit_close() says;
 *         FTKIT_ERR_BUSY: another job that is alive, or another context of this job, uses the
 *         sets on the file system;
 *         FTKIT_ERR_CORRUPT: none of the sets can be used (the detail names the newest).
 */
FTKIT_API int ftkit_recover(ftkit_ctx *ctx, uint64_t *set);

/**
 * Wait until every rank has come to the end of its loop, so that no rank leaves the loop
 * while another rank may still have to roll back:
 *
 *     if (step >= nsteps) {
 *         if (ftkit_finish(ft) == FTKIT_ROLLED_BACK) continue;
 *         break;
 *     }
 *
 * Collective.  Returns as ftkit_checkpoint() does; FTKIT_HALT: the job halts, and the results are
 * not complete.  This call also waits for a set that is
 * being written to the file system: a failure during that time can be repaired here, but not
 * in ftkit_close().  ftkit_wait() or ftkit_close() returns an error of that set.  A program
 * without this call survives failures, too, but a failure in its very last step may cost a
 * relaunch.
 *
 * With log.matrix rank 0 writes the communication matrix here: messages and bytes for each
 * pair of ranks since the job's first set.  A failure during that time is repaired, and the
 * matrix is written afterwards.  If the matrix cannot be written, the result is a warning, not
 * an error.  Every message counts once, however often a rank has sent it again after failures.
 *
 * Errors: those of ftkit_checkpoint(), and FTKIT_ERR_MISMATCH on all ranks: a rank is in
 *         another call, or has called ftkit_checkpoint() another number of times.  A line
 *         names two ranks, and `ftkit run` ends with 1.  With checkpoint.line = apart the
 *         numbers of calls may differ, and a set that some ranks have not begun is given up
 *         here without an error.
 */
FTKIT_API int ftkit_finish(ftkit_ctx *ctx);

/**
 * Compare all checkpoint data in memory with their checksums, and repair what is damaged:
 * from copies, from parity, or by a new set at the next ftkit_checkpoint().  A later failure
 * then finds undamaged copies.  Cost: one read of the memory in use.
 *
 * @param[out] corrupt  number of damaged segments of this rank (its own, the copies that it
 *                      keeps, parities), or NULL
 * @return FTKIT_OK; FTKIT_ROLLED_BACK when a rank failed meanwhile: continue with the loop
 *         then, as after ftkit_finish(); FTKIT_HALT or an error as of ftkit_checkpoint();
 *         FTKIT_ERR_MISMATCH on all ranks, as of ftkit_finish()
 *
 * Collective: after ftkit_recover(), by every rank between the same two calls of
 * ftkit_checkpoint().  After a rollback the ranks do not come to the same of these calls directly
 * before and behind the ftkit_checkpoint() that wrote the set: a replacement begins before this
 * call, or behind it, as the loop is written.  So ftkit_scrub() and ftkit_wait() return FTKIT_OK
 * there without doing anything, as long as the replicated regions are those of the set.  Then
 * ftkit_wait() has not waited for this set: ftkit_test() says whether the set is durable.
 * `ftkit verify` checks the files.
 */
FTKIT_API int ftkit_scrub(ftkit_ctx *ctx, int *corrupt);

/**
 * Make a value that MPI does not know of the same in every replay: time, a random number, an
 * answer from outside.
 *
 * @param[in,out] data   the value; in a replay it is overwritten with the value of the first
 *                       execution [bytes]
 * @param[in]     bytes  at most 65536; 0 does nothing
 *
 * With the message log (log.enabled) only a failed team rolls back.  When the program sends
 * something that depends on such a value, the other teams have seen the first value, so the
 * replay has to have the same.  Call this function after each value is made and before it is
 * used, in the same order in a replay; also between ftkit_open() and ftkit_recover().  ftkit keeps
 * the value until the next set.  Without the message log all ranks roll back together, and the
 * call does nothing.
 *
 *     double now = MPI_Wtime();
 *     ftkit_decide(ft, &now, sizeof now);
 *
 * Local.  Cost: 16 bytes of shared memory for each 12 bytes of the value.
 * Errors: FTKIT_ERR_ARG, FTKIT_ERR_SIZE; FTKIT_ERR_UNSUPPORTED: log.determinants = refuse or
 *         relaxed; FTKIT_ERR_MISMATCH: the program does not take the same course in a replay;
 *         FTKIT_ERR_NOSPACE, FTKIT_ERR_NOMEM: the value is not kept.
 * Source: determinants [Strom, Yemini, TOCS 1985]; here with the contents.
 */
FTKIT_API int ftkit_decide(ftkit_ctx *ctx, void *data, size_t bytes);

/**
 * Promise not to change memory until the next set: the message log keeps no copies of messages that
 * are sent from there.
 *
 * @param[in] buf    the first byte, in host memory; stays the caller's
 * @param[in] bytes  how many
 *
 * A program that sends the same bytes to many ranks of other teams needs no copy of them in the
 * log (log.enabled), and the send takes no time for a copy.  The promise is over when the next set
 * is committed, after a rollback, after a restore, or with ftkit_unshare().  Until then the program
 * does not change the memory, and does not free it.  ftkit_checkpoint() commits sets, and
 * `committed` of ftkit_query() has the number of the last one.  The messages are those of 1024
 * bytes or more, of a predefined datatype, whose bytes all lie in the memory.  Their sends are
 * complete when MPI has sent the message, as without ftkit.  Messages that a rank sends in a replay
 * are copied.
 *
 *     ftkit_share(ft, table, sizeof table);
 *     for (int r = 0; r < nranks; r++)
 *         MPI_Send(table, n, MPI_DOUBLE, r, 0, comm);
 *
 * With log.check (the default) ftkit hashes the memory in this call, when a set is committed, in
 * ftkit_unshare(), and before it sends a message again after a failure.  An error line names memory
 * that has changed, and log_differs of ftkit_query() counts it.  A failure then sends all ranks
 * back, and no wrong message is sent.  Without log.check a change is not found.  Memory that is
 * freed in spite of the promise may end the process by a signal.
 *
 * Without the message log the call does nothing.
 *
 * Local.  Cost: with log.check one read of the memory here and one at the commit.
 * Errors: FTKIT_ERR_ARG: buf is NULL, bytes is 0, or the memory is that of a device;
 *         FTKIT_ERR_EXISTS: a byte is shared already; FTKIT_ERR_UNSUPPORTED: with
 *         checkpoint.line = apart or replicas.  After an error messages are copied as ever.
 * Source: application-level message logging [Meneses, PhD thesis, Univ. of Illinois 2013, A.1].
 */
FTKIT_API int ftkit_share(ftkit_ctx *ctx, const void *buf, size_t bytes);

/**
 * End what ftkit_share() has begun at buf.  The program may change the memory when its sends from
 * there are complete.  The message log copies the bytes that it still needs, each one once.
 *
 * Local.  Cost: one copy from the first to the last byte that was sent.
 * Errors: FTKIT_ERR_ARG: buf is NULL; FTKIT_ERR_NOT_FOUND: no shared memory begins at buf, or its
 *         time has ended with a set; FTKIT_ERR_STATE: the memory has changed meanwhile, and is not
 *         shared any more; FTKIT_ERR_NOMEM: no memory for the copy, and the promise goes on.
 */
FTKIT_API int ftkit_unshare(ftkit_ctx *ctx, const void *buf);

/**
 * One piece of work: compute out from in, and from nothing else.
 *
 * @param[in]  in         the input; aligned to 64 bytes if another rank runs the function
 * @param      in_bytes   its size
 * @param[out] out        memory for the output, aligned likewise; the function fills all of it
 * @param      out_bytes  its size
 * @param      arg        of ftkit_unit(), on the rank that runs the function
 * @return 0, or a code of the program: the unit has failed
 *
 * The same in gives the same out on every rank, bit by bit.  The function calls neither MPI nor
 * ftkit: with the message log a call of MPI fails with MPI_ERR_OTHER, and no set is written from
 * then on.  The function returns: no exception and no longjmp() leaves it.  It may run twice for
 * the same input, and it runs in a call of MPI in a helper.
 */
typedef int ftkit_unit_fn(const void *in, size_t in_bytes, void *out, size_t out_bytes, void *arg);

/**
 * Give a kind of work a name, so that ranks that wait can do such work for a rank in its replay.
 *
 * @param[in] name  1 to 63 bytes; copied
 * @param     fn    the work
 * @param     arg   passed to fn; its content is the same on all ranks; stays the caller's until
 *                  ftkit_close()
 *
 * All ranks name the same kinds, best before ftkit_recover().  A rank that does not know a name
 * cannot help.
 *
 * Local.
 * Errors: FTKIT_ERR_ARG: name or fn is NULL; FTKIT_ERR_NAME: the length of the name;
 *         FTKIT_ERR_EXISTS: the context has the name already; FTKIT_ERR_NOMEM.
 */
FTKIT_API int ftkit_unit(ftkit_ctx *ctx, const char *name, ftkit_unit_fn *fn, void *arg);

/**
 * Run n units of a kind, in order, and return when all outputs are there.
 *
 * @param[in]  name       of ftkit_unit()
 * @param      n          number of units; 0: nothing to do
 * @param[in]  ins        [n] inputs, in host memory; the caller's
 * @param[in]  in_bytes   [n] their sizes, 1 to 2^31 bytes each
 * @param[out] outs       [n] outputs, in host memory that overlaps no other output and no input;
 *                        the caller's
 * @param[in]  out_bytes  [n] their sizes, 1 to 2^31 bytes each
 *
 *     ftkit_unit(ft, "block", update_block, NULL);                   // before ftkit_recover()
 *     ...
 *     ftkit_run_units(ft, "block", 32, old, sizes, fresh, sizes);    // in each step
 *
 * With the message log and log.helpers > 0 a rank that has rolled back, while others wait for it,
 * shares the work: a rank that did not roll back, and has waited in a call of MPI for 1 ms, does
 * units for it.  At most log.helpers ranks help one rank, until the next set is committed.  The
 * rank sends them the inputs, and does units itself meanwhile; when a helper is late or lost, the
 * rank does the unit of the helper, too, and the first output counts.  So the results are those of
 * a run without helpers.  `units_elsewhere` and `units_helped` of ftkit_query() count.  Otherwise
 * this rank runs all units.
 *
 * With log.check two outputs of a unit that was done twice are compared: a difference is an error
 * line, and log_differs of ftkit_query() counts it.
 *
 * Local; with MPI_THREAD_MULTIPLE and the message log one thread at a time, as for calls of MPI.
 * Cost without helpers: some nanoseconds for each unit.
 * Errors: FTKIT_ERR_ARG: an array, an input or an output is NULL, or has a size that is not
 *         possible; FTKIT_ERR_NOT_FOUND: there is no such kind; FTKIT_ERR_CALLBACK: a unit has
 *         failed: the detail has the first one and its code, and the outputs behind it have any
 *         values; FTKIT_ERR_UNSUPPORTED: another thread is in a call of MPI.
 * Source: parallel recovery [Meneses, PhD thesis, Univ. of Illinois 2013, 2.5], for pieces of work
 *         in place of objects that migrate.
 */
FTKIT_API int ftkit_run_units(ftkit_ctx *ctx, const char *name, size_t n, const void *const *ins,
    const size_t *in_bytes, void *const *outs, const size_t *out_bytes);

/** The body of ftkit_escape(). */
typedef void ftkit_body_fn(void *arg);

/**
 * Run body(arg) so that a failure ends it: in a rank that has to roll back, the first MPI call of
 * body that fails because of a failure does not return, and this call returns at once.
 *
 * For code that ignores errors of MPI, or repeats a call until it succeeds, most often a library:
 *
 *     while (ftkit_step(ft, &rc))
 *         ftkit_escape(ft, one_step, &state, NULL);
 *
 * @param body   calls the code; may call ftkit, too, except ftkit_close() and ftkit_escape()
 * @param leave  NULL: body is left by longjmp().  Otherwise this function is called in the failing
 *               MPI call, and leaves body in its own way: ftkit.hpp throws an exception.  If it
 *               returns, the MPI call returns its error.
 * @return FTKIT_OK: body has returned; FTKIT_ESCAPED: it was left: continue with the loop; an error
 *
 * What body has not finished stays undone: locks that it holds stay locked, memory that it has
 * allocated leaks, files stay open, and no destructor of C++ runs (with ftkit.hpp they run).  So
 * body should take no lock around an MPI call.  Buffers of operations under way must not be
 * variables of body or of functions that body calls: an operation may still write to them.
 * Request variables that are not in registered regions keep old values: set them to
 * MPI_REQUEST_NULL after FTKIT_ROLLED_BACK.
 * The call is left only from MPI calls of the thread that has called ftkit_escape(), and not from
 * inside of another call of ftkit.  Functions that MPI calls (copy functions of attributes) must
 * not communicate.  Calls of MPI-IO may hold locks of the MPI: make them outside of body.
 * Without the message log, errors on a communicator whose error handler the program has replaced
 * are returned.  With the log every call of a rank that rolls back leaves, also on such a
 * communicator; the other ranks notice nothing.
 *
 * Local.
 * Errors: FTKIT_ERR_ARG; FTKIT_ERR_STATE: before ftkit_recover(), or in another ftkit_escape().
 */
FTKIT_API int ftkit_escape(ftkit_ctx *ctx, ftkit_body_fn *body, void *arg, ftkit_body_fn *leave);

/** 1 from the moment at which this rank notices a failure (by a failed MPI call, for
 * instance) until ftkit_checkpoint() or another call has repaired it; else 0.  Local,
 * nanoseconds: for programs that leave a long computation early, and for the program's own
 * checks (see ftkit_confirm()). */
FTKIT_API int ftkit_failed(const ftkit_ctx *ctx);

/**
 * Ask whether a failure explains a result that the program's own check rejects.
 *
 * After a failure MPI calls return errors and leave receive buffers as they were.  The values
 * that the rank computes until the next ftkit_checkpoint() are worthless, and checks of the
 * program may reject them (a negative volume, NaN, a residual).  Such a check must not end
 * the process:
 *
 *     if (!(volume > 0) && !ftkit_confirm(ft)) MPI_Abort(comm, 1);
 *     assert(volume > 0 || ftkit_confirm(ft));
 *
 * @return 1: a failure is known; continue to ftkit_checkpoint(), which repairs.  0: no
 *         failure is known, the error is the program's own.  Also 0 for a NULL context and
 *         with FTKIT_MODE_RESTART.
 *
 * Local.
 * Blocking: nanoseconds when a failure is known; otherwise this call looks for a failure and
 *           waits up to 2 s for the notice, because wrong values may come before the notice.
 */
FTKIT_API int ftkit_confirm(ftkit_ctx *ctx);

/**
 * MPI_Abort() for programs that repair: while a failure is known, only this rank ends.
 *
 * When a failure is known, or becomes known as in ftkit_confirm(), this process reports that
 * and ends as a lost process; the repair replaces it.  Otherwise the job ends, as with
 * MPI_Abort(), but at once on all ranks: `ftkit run` ends with the code, and does not relaunch the
 * job.  For code that cannot ask ftkit_confirm():
 *
 *     #define MPI_Abort(comm, code) ftkit_abort(comm, code)
 *
 * With the message log MPI_Abort() itself does the same.  Prefer ftkit_confirm(): the process
 * stays, and no spare is needed.  This call does not return when a context is open that
 * repairs; without such a context it is MPI_Abort().
 */
FTKIT_API int ftkit_abort(MPI_Comm comm, int code);

/**
 * Ask whether the next ftkit_checkpoint(), or ftkit_step(), will write a set: for programs that
 * prepare a set, as with ftkit_files_begin().
 *
 * @return 1: it will, unless a failure comes; 0: it will not, or a failure is known, which it will
 *         repair; below 0: an error
 *
 * Call this function on every rank between the same two calls of ftkit_checkpoint(), once, and
 * after the body has changed its state.  All ranks get the same answer.  There are two exceptions,
 * because some ranks are new there: a loop without ftkit_step(), before its first
 * ftkit_checkpoint() after a restore; and a rollback in ftkit_wait() or ftkit_scrub(), before the
 * next ftkit_step().  Do not let communication depend on the answer there.
 * If only some ranks have called ftkit_request(), and all others vote here, the answer is 1 on all
 * ranks.  If the others do not vote, the job ends with a line, as for ftkit_request().
 *
 * Collective.
 * Blocking: as ftkit_checkpoint() when nothing is due; one small vote of all ranks where the clock
 *           decides, or after ftkit_request().  The next call takes no vote for that again.
 * Errors:   FTKIT_ERR_STATE: before ftkit_recover(); FTKIT_ERR_UNSUPPORTED: with the message log;
 *           FTKIT_ERR_MISMATCH: the ranks are at different calls.
 */
FTKIT_API int ftkit_due(ftkit_ctx *ctx);

/** Write a set at the next ftkit_checkpoint(), whatever the period is.  With durable != 0 the
 * set also goes to the file system: ftkit_checkpoint() then waits for an earlier set that is
 * still being written there, and ftkit_wait() waits for the requested set.  Call this function
 * on every rank before the same ftkit_checkpoint(); the call itself does not communicate.  If
 * only some ranks call this function, the job ends with a line (without replicas, when a rank that
 * has and one that has not are on the same node; with replicas recover.stall ends it).
 * A replacement may begin at the set that was asked for, and ask for it again before its first
 * ftkit_checkpoint(): that call writes no second one.
 * With checkpoint.line = apart the call of one rank is enough.  While an earlier set is still
 * being written to the file system, the requested set stays in memory, and a later set goes to
 * the file system.  ftkit_wait() may give up the requested set: a later ftkit_checkpoint() then
 * begins another set. */
FTKIT_API int ftkit_request(ftkit_ctx *ctx, int durable);

/* ---- Communicators ------------------------------------------------------------------- */

/** The callback of ftkit_on_repair().  Returns 0 for success. */
typedef int ftkit_repair_fn(ftkit_ctx *ctx, MPI_Comm comm, void *arg);

/**
 * Set the callback that builds everything that depends on the communicator: derived
 * communicators, topologies, a decomposition after a shrink.  The callback runs on every rank,
 * collectively, once in ftkit_recover() and after each repair before the regions are restored.
 * The callback may use MPI on comm and register arrays again.  When an MPI call in the
 * callback fails because of another failure, the callback should return; ftkit calls it again
 * after the next repair.
 * With the message log communicators survive failures: the callback runs in ftkit_recover()
 * only, where a replacement receives the messages that the lost process received there.
 */
FTKIT_API int ftkit_on_repair(ftkit_ctx *ctx, ftkit_repair_fn *fn, void *arg);

/**
 * Let ftkit revoke a communicator of the program when a rank fails, so that no rank stays
 * blocked in a call on it.  A repair ends the tracking, and the communicator stays revoked:
 * free it and make a new one in the callback of ftkit_on_repair().
 */
FTKIT_API int ftkit_track_comm(ftkit_ctx *ctx, MPI_Comm comm);

/** End the tracking of a communicator.  MPI_Comm_free() on it ends the tracking, too. */
FTKIT_API int ftkit_untrack_comm(ftkit_ctx *ctx, MPI_Comm comm);

/* ---- Information --------------------------------------------------------------------- */

/** How failures are handled, from the strongest. */
enum ftkit_mode {
    FTKIT_MODE_RESTART = 0, /**< the job ends and is relaunched from its newest set */
    FTKIT_MODE_GLOBAL = 1,  /**< repaired in the job, every rank rolls back */
    FTKIT_MODE_TEAM = 2     /**< repaired in the job, only the failed team rolls back */
};

typedef struct ftkit_info {
    size_t size;             /**< sizeof(ftkit_info), set by the caller */
    int mode;                /**< enum ftkit_mode in force */
    int rank;                /**< this rank in ftkit_comm() */
    int nranks;              /**< size of ftkit_comm() */
    int nspares;             /**< spares left */
    int incarnation;         /**< processes that carried this rank before: 0, 1, ... */
    int repairs;             /**< repairs this process took part in */
    int rollbacks;           /**< times the regions of this process were rolled back */
    int flush_error;         /**< result of the last set that this process wrote in the
                                  background: FTKIT_OK, or an error, which the call that
                                  writes the next set returns on all ranks */
    uint64_t committed;      /**< newest committed set, 0: none */
    uint64_t durable;        /**< newest complete set on the file system that this rank
                                  knows of, 0: none; never older than the newest complete
                                  set of this run */
    uint64_t restored;       /**< set last restored, 0: none */
    size_t region_bytes;     /**< bytes of all regions at the last set */
    size_t memory_bytes;     /**< bytes of checkpoint memory held by this process */
    double checkpoint_s;     /**< duration of the last set, seconds */
    double repair_s;         /**< duration of the last repair, seconds */
    double repair_detect_s;  /**< ... of it: from the revoke until the survivors have met */
    double repair_supply_s;  /**< ... census, plan and supply of replacements */
    double repair_rebuild_s; /**< ... communicators */
    double repair_restore_s; /**< ... moving and restoring data, new copies */
    uint64_t flushing;       /**< set this process is writing in the background, 0: none */
    double flush_s;          /**< duration of the last such write, seconds */
    uint64_t sent_bytes;     /**< bytes of the last set in memory that this process sent to
                                  others, as copies or for parity */
    uint64_t sent_total;     /**< the same for all sets so far */
    /* the message log of this process since it opened the context; 0 without log.enabled */
    uint64_t log_messages;          /**< messages to other teams, kept until the next set */
    uint64_t log_bytes;             /**< their bytes */
    uint64_t log_held;              /**< bytes that are kept now */
    uint64_t log_determinants;      /**< choices that MPI leaves open, since the last set */
    uint64_t log_determinant_bytes; /**< bytes sent to other ranks for them (log.determinants) */
    uint64_t log_resent;            /**< messages sent again to ranks that rolled back */
    uint64_t log_suppressed;        /**< messages not sent again because their receiver had them */
    uint64_t log_drained;  /**< messages that a repair or a set received before the program did */
    uint64_t log_spilled;  /**< bytes of files that the log took as memory, see log.memory */
    uint64_t log_differs;  /**< messages that differed when they were sent again, see log.check */
    uint64_t log_requests; /**< requests and matched messages of this rank in the last set */
    /* since ftkit_open(), of sets with checkpoint.line = apart, in the parts of this rank */
    uint64_t line_late;         /**< late messages: received after the cut, and part of the set */
    uint64_t line_early;        /**< early messages: received before the cut of this rank and sent
                                     after that of their sender */
    uint64_t line_determinants; /**< choices after the cut that are part of the set */
    uint64_t line_open;         /**< the set that is being written, if this rank knows of
                                     one; 0: none */
    uint64_t line_waits_here;   /**< 1: that set waits until this rank calls
                                     ftkit_checkpoint() */
    /* replicas (replicas.count) */
    int plane;              /**< of this process: 0 .. nplanes - 1 */
    int nplanes;            /**< replicas.count */
    uint64_t sdc_found;     /**< sets that differed between replicas, each try once; counted when
                                 the set is committed or given up */
    uint64_t sdc_corrected; /**< sets that were committed after such tries */
    uint64_t takeovers;     /**< repairs that this process has seen after which a plane stood
                                 still, and no rank went back */
    uint64_t clones;        /**< how often this process has got the state of another replica */
    uint64_t degraded;      /**< replicas that do not protect their rank now: those whose plane
                                 stands still until the next set, and those on the same node as
                                 another replica of the rank (if the job has several nodes) */
    double joules;          /**< energy that the node of this process has used since this process
                                 opened the context (a replacement: since its restore), as
                                 sensors measure it, in joules; NaN: not measured.  Only the
                                 lowest rank of each node measures, so the sum over the ranks
                                 that have a number is that of the job */
    int program;            /**< number of the program of this process in `mpirun a : b`, from 0.
                                 Use this member, not MPI_APPNUM: a process that a repair has
                                 spawned has MPI_APPNUM 0 */
    int nprograms;          /**< programs of the job, at least 1; a : a is one */
    /* the last replay that is over: this rank, or the process before it, had called
       ftkit_checkpoint() some times since the set to which it went back, and calls as often again.
       0: none, no call since the set, and with replicas or checkpoint.line = apart */
    double replay_s;         /**< seconds from the restore of the regions until the last of these
                                  calls began, without further repairs */
    double replay_forward_s; /**< seconds that the same calls took before the failure, without
                                  repairs.  The speed of the replay is replay_forward_s / replay_s.
                                  Of a replacement: as measured by the survivor of the lowest
                                  rank */
    uint64_t replay_calls;   /**< calls of ftkit_checkpoint() that were repeated */
    double catch_up_s;       /**< seconds from there to the beginning of the next call, which is
                                  new: the step that the failure broke off.  0: not over yet, or
                                  ended by a set, a failure or a rollback */
    int idle_cores;          /**< while this rank replays and catches up, with the message log:
                                  whole cores of this node that waiting ranks leave free, as of
                                  the last 20 ms.  A waiting rank has been in a call of ftkit or
                                  MPI for 1 ms or more.  The number is that of the cores that
                                  processes of the job may use here, times the waiting ranks,
                                  divided by the working ranks of the node.  With more threads the
                                  result is the same, bit by bit, only if it does not depend on
                                  their number.  0 on other ranks and at other times, with replicas
                                  or checkpoint.line = apart, and where waiting ranks do not sleep
                                  (docs/energy.md) */
    /* units of ftkit_run_units() in this process so far */
    uint64_t units_elsewhere; /**< of this rank, done by helpers */
    uint64_t units_helped;    /**< of other ranks, done by this rank as a helper */
} ftkit_info;

/** Report on the context: fill *info (its size member first).  Local; may look at a set's files. */
FTKIT_API int ftkit_query(const ftkit_ctx *ctx, ftkit_info *info);

/** Why a process was lost.  Values are added at the end only. */
enum ftkit_reason {
    FTKIT_LOST_UNKNOWN = 0, /**< not known, or not known yet */
    FTKIT_LOST_SIGNAL = 1,  /**< killed by a signal; code: its number, 0: not known */
    FTKIT_LOST_NODE = 2,    /**< its node is lost */
    FTKIT_LOST_EXIT = 3,    /**< ended with its context open; code: the exit code, -1: not known */
    FTKIT_LOST_ABORT = 4,   /**< MPI_Abort() or ftkit_abort() while a failure was known; code: its
                                 argument */
    FTKIT_LOST_STUCK = 5    /**< stopped or stuck, and killed by the watchdog */
};

/** One lost process. */
typedef struct ftkit_failure {
    int rank;        /**< in ftkit_comm() when it was lost */
    int plane;       /**< with replicas: its plane; else 0 */
    int incarnation; /**< processes that had carried this rank before it: 0, 1, ... */
    int reason;      /**< enum ftkit_reason */
    int code;        /**< see enum ftkit_reason; 0 for the other reasons */
} ftkit_failure;

/**
 * The working ranks that were lost, and why: in the last repair, and in earlier repairs that went
 * back to the same set.
 *
 * @param[out]    list  [*n] the losses, in the order of the repairs, then of the ranks
 * @param[in,out] n     in: room in list; out: the number of losses, which may be larger.  Then
 *                      only the first ones are in list.  With room 0 list may be NULL
 *
 * All ranks have the same losses, also replacements.  Before the first repair, with
 * FTKIT_MODE_RESTART and after the relaunch of the job *n is 0.
 *
 * A reason is given only when it is known; the program must not rely on one.  What a process or
 * the watchdog of its node knows (EXIT, ABORT, STUCK) is known if a rank of that node lives.  The
 * runtime knows signals and nodes, and reports them to `ftkit run`, on the node of mpirun only: a
 * signal is known by its number there, and elsewhere without one.  The library ends processes by
 * SIGKILL: if no rank of the node lives, SIGNAL may stand for EXIT, ABORT or STUCK.  The ranks
 * share what they know in the repair.  A report that comes later is known only to ranks that see
 * the files of `ftkit run`: so a reason may be known on some ranks only.
 *
 * Local.
 * Blocking: while a reason is not known, up to 0.5 s from the repair on, where the report may come.
 * Errors: FTKIT_ERR_ARG: n is NULL, or *n < 0, or list is NULL and *n > 0.
 */
FTKIT_API int ftkit_failures(const ftkit_ctx *ctx, ftkit_failure *list, int *n);

/** Set *done to 1 if the set is complete on the file system, else to 0.  Local, reads files. */
FTKIT_API int ftkit_test(ftkit_ctx *ctx, uint64_t set, int *done);

/**
 * Wait until every set that was begun has reached all its levels.
 *
 * @return FTKIT_OK, FTKIT_HALT as of ftkit_checkpoint(), the error of a set that could not be
 *         written to the file system, or FTKIT_ROLLED_BACK when a rank failed meanwhile: continue
 *         with the loop then, as after ftkit_finish().  This call does not wait for a set that was
 *         given up because of the failure; the next set then goes to the file system.
 *
 * Collective: after ftkit_recover(), by every rank between the same two calls of
 *             ftkit_checkpoint(); directly before or behind this call as ftkit_scrub(); the same
 *             code on every rank.  With checkpoint.line = apart
 *             by every rank in the same order as the other collective calls of ftkit.  A set
 *             that some ranks have not begun is given up here without an error.
 * Blocking:   as long as writing takes, which level.hdf5.bandwidth may slow down.  To look
 *             without waiting: ftkit_test(), or flushing and durable of ftkit_query().
 */
FTKIT_API int ftkit_wait(ftkit_ctx *ctx);

/** Text about the last failed call on this context: what failed, where, on which rank; ""
 * if no call has failed.  With NULL: about this thread's last failed call without a context.
 * Valid until the next call. */
FTKIT_API const char *ftkit_detail(const ftkit_ctx *ctx);

/** Severity of a line given to the report callback. */
enum ftkit_level { FTKIT_ERROR = 0, FTKIT_WARNING = 1, FTKIT_INFO = 2, FTKIT_DEBUG = 3 };

typedef void ftkit_report_fn(int level, const char *line, void *arg);

/** Set the report callback of the process: fn gets every line of every context.  Call this
 * function before ftkit_open().  A helper thread may call fn; fn must not call ftkit. */
FTKIT_API int ftkit_set_report(ftkit_report_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif

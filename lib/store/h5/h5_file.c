/* Place "hdf5": the file driver under HDF5, durable files, error texts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * When a write of HDF5 fails, HDF5 can no longer close its handles, and errno is lost.  So HDF5
 * runs on a small file driver of ours, which never reports a failed write to HDF5.  The driver
 * keeps the first error and drops later writes; all handles can be closed; the error is reported
 * when the file is finished.  The driver works on a descriptor that we have opened.  So we
 * decide about names, symbolic links, fsync and close, and take no locks, which some file
 * systems lack.  The result is an ordinary HDF5 file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/format.h"
#include "h5_priv.h"
#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

#define ALIGN_FROM (64u << 10) /* datasets from this size begin at a page of the file */
#define ALIGN_TO 4096u
#define SIEVE_BYTES (1u << 20) /* short rows are gathered into pieces of this size */
#define SYNC_BYTES ((off_t)64 << 20)
#define PIECE_BYTES (8u << 20) /* writeback is started piece by piece */

static int fault(const char *point)
{
    return point ? FTK_FAULT(point) : 0;
}

/* ---- the driver ---------------------------------------------------------------------- */

struct driver_info {
    struct ftk_h5_io *io;
};

struct driver_file {
    H5FD_t pub; /* must be first */
    struct ftk_h5_io *io;
    haddr_t eoa; /* end of what HDF5 has allocated */
    haddr_t eof; /* end of the file; bytes between the two read as zero */
};

static H5FD_t *drv_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    (void)name;
    (void)flags;
    (void)maxaddr;
    const struct driver_info *info = H5Pget_driver_info(fapl);
    struct stat st;
    struct driver_file *f;
    if (!info || fstat(info->io->fd, &st) != 0 || !(f = calloc(1, sizeof *f)))
        return NULL;
    f->io = info->io;
    f->eof = (haddr_t)st.st_size;
    return &f->pub;
}

static herr_t drv_close(H5FD_t *pub)
{
    free(pub);
    return 0;
}

static int drv_cmp(const H5FD_t *a, const H5FD_t *b)
{
    uintptr_t x = (uintptr_t)((const struct driver_file *)(const void *)a)->io;
    uintptr_t y = (uintptr_t)((const struct driver_file *)(const void *)b)->io;
    return x < y ? -1 : x > y;
}

static herr_t drv_query(const H5FD_t *pub, unsigned long *flags)
{
    (void)pub;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE
             | H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t drv_get_eoa(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const struct driver_file *)(const void *)pub)->eoa;
}

static herr_t drv_set_eoa(H5FD_t *pub, H5FD_mem_t type, haddr_t addr)
{
    (void)type;
    ((struct driver_file *)(void *)pub)->eoa = addr;
    return 0;
}

static haddr_t drv_get_eof(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const struct driver_file *)(const void *)pub)->eof;
}

/* Start writeback of the bytes just written, so that the disk works while the next rows are
 * gathered, and fsync has little left to do.  Errors are ignored: fsync reports them. */
static void start_writeback(struct ftk_h5_io *io, uint64_t at, uint64_t end)
{
#ifdef SYNC_FILE_RANGE_WRITE
    if (at < io->begun || at > io->written) /* at is outside the range: begin a new range */
        io->begun = at;
    io->written = end;
    if (end < io->begun + PIECE_BYTES)
        return;
    uint64_t whole = end / ALIGN_TO * ALIGN_TO;
    sync_file_range(io->fd, (off_t)io->begun, (off_t)(whole - io->begun), SYNC_FILE_RANGE_WRITE);
    io->begun = whole;
#else
    (void)io, (void)at, (void)end;
#endif
}

/* Write the whole of buf; 0, or an errno. */
static int write_all(struct ftk_h5_io *io, const void *buf, size_t bytes, uint64_t at)
{
    const char *p = buf;
    while (bytes > 0) {
        ssize_t n = pwrite(io->fd, p, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        start_writeback(io, at, at + (uint64_t)n);
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

static herr_t drv_read(
    H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t bytes, void *buf)
{
    (void)type;
    (void)dxpl;
    struct driver_file *f = (void *)pub;
    char *p = buf;
    while (bytes > 0 && addr < f->eof && !f->io->err) {
        ssize_t n = pread(f->io->fd, p, bytes, (off_t)addr);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            f->io->err = errno;
            return -1;
        }
        if (n == 0)
            break;
        p += n;
        addr += (haddr_t)n;
        bytes -= (size_t)n;
    }
    memset(p, 0, bytes);
    return 0;
}

static herr_t drv_write(
    H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t bytes, const void *buf)
{
    (void)type;
    (void)dxpl;
    struct driver_file *f = (void *)pub;
    if (!f->io->err)
        f->io->err = fault(f->io->write_point);
    if (!f->io->err)
        f->io->err = write_all(f->io, buf, bytes, addr);
    if (addr + bytes > f->eof)
        f->eof = addr + bytes;
    return 0; /* io->err has the error; HDF5 must not see it: see the top of the file */
}

static herr_t drv_truncate(H5FD_t *pub, hid_t dxpl, hbool_t closing)
{
    (void)dxpl;
    (void)closing;
    struct driver_file *f = (void *)pub;
    if (f->eoa == f->eof)
        return 0;
    if (!f->io->err && ftruncate(f->io->fd, (off_t)f->eoa) != 0)
        f->io->err = errno;
    f->eof = f->eoa;
    return 0;
}

static const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = 419, /* of the range that HDF5 leaves to private drivers */
#endif
    .name = "ftkit",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct driver_info),
    .open = drv_open,
    .close = drv_close,
    .cmp = drv_cmp,
    .query = drv_query,
    .get_eoa = drv_get_eoa,
    .set_eoa = drv_set_eoa,
    .get_eof = drv_get_eof,
    .read = drv_read,
    .write = drv_write,
    .truncate = drv_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* Register the driver anew for each file.  So nothing of ours stays in the HDF5 library after a
 * call, and the program may use or close the library between two calls. */
static hid_t file_access(struct ftk_h5_io *io)
{
    struct driver_info info = { io };
    hid_t id = io->driver = H5FDregister(&driver);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    /* format 1.10 has checksums of all metadata, and virtual datasets; newer versions of HDF5
     * write the same format */
    if (id < 0 || fapl < 0 || H5Pset_driver(fapl, id, &info) < 0
        || H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0
        || H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG) < 0
        || H5Pset_alignment(fapl, ALIGN_FROM, ALIGN_TO) < 0
        || H5Pset_sieve_buf_size(fapl, SIEVE_BYTES) < 0) {
        ftk_h5_close(fapl, H5Pclose);
        fapl = -1;
    }
    return fapl;
}

/* Only after the file is closed: until then HDF5 uses the class of the driver. */
static void drop_driver(struct ftk_h5_io *io)
{
    ftk_h5_close(io->driver, H5FDunregister);
    io->driver = -1;
}

herr_t ftk_h5_file_close(struct ftk_h5_io *io, hid_t file)
{
    herr_t rc = H5Fclose(file);
    drop_driver(io);
    return rc;
}

hid_t ftk_h5_file_create(struct ftk_h5_io *io)
{
    hid_t fapl = file_access(io);
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
    hid_t file = -1;
    if (fapl >= 0 && fcpl >= 0 && H5Pset_obj_track_times(fcpl, false) >= 0)
        file = H5Fcreate("ftkit", H5F_ACC_TRUNC, fcpl, fapl);
    ftk_h5_close(fcpl, H5Pclose);
    ftk_h5_close(fapl, H5Pclose);
    if (file < 0)
        drop_driver(io);
    return file;
}

hid_t ftk_h5_file_open(struct ftk_h5_io *io)
{
    hid_t fapl = file_access(io);
    hid_t file = fapl < 0 ? -1 : H5Fopen("ftkit", H5F_ACC_RDONLY, fapl);
    ftk_h5_close(fapl, H5Pclose);
    if (file < 0)
        drop_driver(io);
    return file;
}

/* ---- errors -------------------------------------------------------------------------- */

void ftk_h5_quiet(struct ftk_h5_quiet *q)
{
    memset(q, 0, sizeof *q);
    H5Eauto_is_v2(H5E_DEFAULT, &q->v2);
    if (q->v2) {
        H5Eget_auto2(H5E_DEFAULT, &q->fn2, &q->arg);
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    } else {
        H5Eget_auto1(&q->fn1, &q->arg);
        H5Eset_auto1(NULL, NULL);
    }
}

void ftk_h5_loud(const struct ftk_h5_quiet *q)
{
    if (q->v2)
        H5Eset_auto2(H5E_DEFAULT, q->fn2, q->arg);
    else
        H5Eset_auto1(q->fn1, q->arg);
}

static herr_t first_entry(unsigned n, const H5E_error2_t *e, void *arg)
{
    char *why = arg; /* [160] */
    (void)n;
    snprintf(why, 160, "%s: %s", e->func_name, e->desc);
    return 1; /* the innermost is enough */
}

int ftk_h5_fail_at(
    const char *file, int line, const struct ftk_h5_io *io, int code, const char *fmt, ...)
{
    char text[FTK_DETAIL_MAX - 256];
    char why[160] = "unknown";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_entry, why);
    va_list ap;
    va_start(ap, fmt);
    ftk_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    if (io->err)
        return ftk_fail_errno_at(file, line, io->err, "%s: %s", io->what, text);
    return ftk_fail_at(file, line, code, "%s: %s: HDF5: %s", io->what, text, why);
}

/* ---- durable files ------------------------------------------------------------------- */

static void label(struct ftk_h5_io *io, uint64_t set, const char *name)
{
    if (set > 0)
        snprintf(io->what, sizeof io->what, "set %" PRIu64 ", %s", set, name);
    else /* the file belongs to no set */
        snprintf(io->what, sizeof io->what, "%s", name);
}

int ftk_h5_out_create(
    struct ftk_h5_out *o, int dirfd, uint64_t set, const char *name, const struct ftk_h5_points *at)
{
    memset(o, 0, sizeof *o);
    o->dirfd = dirfd;
    o->at = at;
    o->io.write_point = at->write;
    snprintf(o->name, sizeof o->name, "%s", name);
    snprintf(o->tmp, sizeof o->tmp, "%s.tmp", name);
    label(&o->io, set, name);
    o->io.fd = -1;
    int err = fault(at->create);
    if (!err && unlinkat(dirfd, o->tmp, 0) != 0 && errno != ENOENT)
        err = errno;
    if (!err) {
        o->io.fd = openat(dirfd, o->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        err = o->io.fd < 0 ? errno : 0;
    }
    if (err)
        return ftk_fail_errno(err, "%s: create", o->io.what);
    return FTKIT_OK;
}

/* Write a file without HDF5. */
static int write_out(struct ftk_h5_out *o, const void *buf, size_t bytes)
{
    if (!o->io.err)
        o->io.err = fault(o->io.write_point);
    if (!o->io.err)
        o->io.err = write_all(&o->io, buf, bytes, 0);
    if (o->io.err)
        return ftk_fail_errno(o->io.err, "%s: write", o->io.what);
    return FTKIT_OK;
}

void ftk_h5_out_discard(struct ftk_h5_out *o)
{
    if (o->io.fd >= 0)
        close(o->io.fd);
    o->io.fd = -1;
    unlinkat(o->dirfd, o->tmp, 0);
}

static _Thread_local const struct ftk_h5_gate *gate;

void ftk_h5_use_gate(const struct ftk_h5_gate *of_this_thread)
{
    gate = of_this_thread;
}

static int step_fsync(int fd, const char *point)
{
    if (gate)
        gate->leave();
    int err = fault(point);
    while (!err && fsync(fd) != 0) {
        if (errno != EINTR)
            err = errno;
    }
    if (gate)
        gate->enter();
    return err;
}

/* fsync() of a large file can take minutes, without a sign of progress.  So write the file back
 * piece by piece before the fsync.  After each piece set the time of the file: a process that
 * waits for this file sees the progress. */
static void write_back(struct ftk_h5_out *o)
{
#ifdef SYNC_FILE_RANGE_WRITE
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    struct stat st;
    if (!o->stays || fstat(o->io.fd, &st) != 0)
        return;
    if (gate)
        gate->leave();
    for (off_t at = 0; at < st.st_size; at += SYNC_BYTES)
        if (sync_file_range(o->io.fd, at, SYNC_BYTES, all) != 0 || futimens(o->io.fd, NULL) != 0)
            break; /* fsync() writes the rest, and reports the error */
    if (gate)
        gate->enter();
#else
    (void)o;
#endif
}

static int step_close(int *fd, const char *point)
{
    int err = fault(point);
    if (close(*fd) != 0 && !err && errno != EINTR)
        err = errno;
    *fd = -1;
    return err;
}

/* Invariant: the final name never refers to bytes that are not durable. */
int ftk_h5_out_finish(struct ftk_h5_out *o)
{
    const char *step = "write";
    int err = o->io.err;
    if (!err) {
        step = "fsync";
        write_back(o);
        err = step_fsync(o->io.fd, o->at->fsync);
    }
    if (!err) {
        step = "close"; /* on NFS a write error may surface only here */
        err = step_close(&o->io.fd, o->at->close);
    }
    if (!err) {
        step = "rename";
        err = fault(o->at->rename);
        if (!err && renameat(o->dirfd, o->tmp, o->dirfd, o->name) != 0)
            err = errno;
    }
    if (!err) {
        step = "fsync of the directory";
        err = step_fsync(o->dirfd, o->at->dirsync);
        if (err == EINVAL) /* this file system needs no fsync of directories */
            err = 0;
        if (err && !o->stays)
            unlinkat(o->dirfd, o->name, 0); /* the new name may not be durable: withdraw it */
    }
    if (!err)
        return FTKIT_OK;
    int rc = ftk_fail_errno(err, "%s: %s", o->io.what, step);
    ftk_h5_out_discard(o);
    return rc;
}

int ftk_h5_out_text(int dirfd, uint64_t set, const char *name, const struct ftk_h5_points *at,
    const char *text, size_t bytes)
{
    struct ftk_h5_out o;
    int rc = ftk_h5_out_create(&o, dirfd, set, name, at);
    if (rc != FTKIT_OK)
        return rc;
    rc = write_out(&o, text, bytes);
    if (rc == FTKIT_OK)
        return ftk_h5_out_finish(&o);
    ftk_h5_out_discard(&o);
    return rc;
}

int ftk_h5_save_text(const char *path, const char *text, size_t bytes)
{
    static const struct ftk_h5_points points = {
        .write = "text.write",
        .fsync = "text.fsync",
        .rename = "text.rename",
    };
    char dir[FTK_PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (*name == '\0' || strlen(name) >= FTK_H5_NAME_MAX)
        return ftk_fail(
            FTKIT_ERR_ARG, "%s: the name of the file is %s", path, *name ? "too long" : "missing");
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return ftk_fail_errno(errno, "%s", dir);
    int rc = ftk_h5_out_text(dirfd, 0, name, &points, text, bytes);
    close(dirfd); /* read-only: no error to report */
    return rc;
}

int ftk_h5_in_open(int dirfd, uint64_t set, const char *name, struct ftk_h5_io *io, size_t *bytes)
{
    struct stat st;
    memset(io, 0, sizeof *io);
    label(io, set, name);
    /* O_NONBLOCK: if the name is that of a FIFO, do not wait for its other end */
    io->fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (io->fd < 0) {
        int err = errno;
        if (err == ENOENT)
            return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s: no such file", io->what);
        if (err == ELOOP)
            return ftk_fail(FTKIT_ERR_FORMAT, "%s: a link, not a file", io->what);
        return ftk_fail_errno(err, "%s: open", io->what);
    }
    int rc = FTKIT_OK;
    if (fstat(io->fd, &st) != 0)
        rc = ftk_fail_errno(errno, "%s: stat", io->what);
    else if (!S_ISREG(st.st_mode))
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: not a regular file", io->what);
    else
        *bytes = (size_t)st.st_size;
    if (rc != FTKIT_OK)
        ftk_h5_in_close(io);
    return rc;
}

void ftk_h5_in_close(struct ftk_h5_io *io)
{
    if (io->fd >= 0)
        close(io->fd);
    io->fd = -1;
}

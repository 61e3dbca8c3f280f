/* Durable level hdf5: the file driver under HDF5, error texts.
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

/* ---- the driver ---------------------------------------------------------------------- */

struct driver_info {
    const struct ftk_h5_io *io;
};

struct driver_file {
    H5FD_t pub; /* must be first */
    const struct ftk_h5_io *io;
    struct ftk_file *file;
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
    if (!info || fstat(info->io->file->fd, &st) != 0 || !(f = calloc(1, sizeof *f)))
        return NULL;
    f->io = info->io;
    f->file = info->io->file;
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
    uintptr_t x = (uintptr_t)((const struct driver_file *)(const void *)a)->file;
    uintptr_t y = (uintptr_t)((const struct driver_file *)(const void *)b)->file;
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

static herr_t drv_read(
    H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t bytes, void *buf)
{
    (void)type;
    (void)dxpl;
    struct driver_file *f = (void *)pub;
    char *p = buf;
    while (bytes > 0 && addr < f->eof && !f->file->err) {
        const size_t most = f->io->got && bytes > FTK_SEG_BLOCK ? FTK_SEG_BLOCK : bytes;
        ssize_t n = pread(f->file->fd, p, most, (off_t)addr);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            f->file->err = errno;
            return -1;
        }
        if (n == 0)
            break;
        if (f->io->got)
            f->io->got(f->io->got_arg, p, (size_t)n);
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
    (void)ftk_file_write(f->file, buf, bytes, addr);
    if (addr + bytes > f->eof)
        f->eof = addr + bytes;
    return 0; /* f->file->err has the error; HDF5 must not see it: see the top of the file */
}

static herr_t drv_truncate(H5FD_t *pub, hid_t dxpl, hbool_t closing)
{
    (void)dxpl;
    (void)closing;
    struct driver_file *f = (void *)pub;
    if (f->eoa == f->eof)
        return 0;
    if (!f->file->err && ftruncate(f->file->fd, (off_t)f->eoa) != 0)
        f->file->err = errno;
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
    if (io->file->err)
        return ftk_fail_errno_at(file, line, io->file->err, "%s: %s", io->file->what, text);
    return ftk_fail_at(file, line, code, "%s: %s: HDF5: %s", io->file->what, text, why);
}

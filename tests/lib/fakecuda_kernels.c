/* The kernels of the driver without a device (see fakecuda.c): by their names, or in PTX.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <string.h>

#include "fakecuda_inside.h"

/* ---- kernels ---------------------------------------------------------------------------- */

/* heat(u, next, nx): one step of an explicit 5-point scheme; bytes: the number of rows. */
static void heat(const struct work *w)
{
    const size_t nx = (size_t)w->at[2], rows = w->bytes;
    const double *u = (void *)fakecuda_real_of(w->at[0], (rows + 2) * nx * sizeof *u);
    double *next = (void *)fakecuda_real_of(w->at[1], (rows + 2) * nx * sizeof *next);
    if (!u || !next) {
        fakecuda_sticky = ILLEGAL_ADDRESS;
        return;
    }
    for (size_t y = 1; y <= rows; y++)
        for (size_t x = 0; x < nx; x++) {
            const size_t i = y * nx + x;
            const double left = x > 0 ? u[i - 1] : 0, right = x + 1 < nx ? u[i + 1] : 0;
            next[i] = u[i] + 0.2 * (left + right + u[i - nx] + u[i + nx] - 4.0 * u[i]);
        }
}

/* add(p, n, value): add the value to n numbers. */
static void add_value(const struct work *w)
{
    double *p = (void *)fakecuda_real_of(w->at[0], (size_t)w->at[1] * sizeof *p);
    if (!p)
        fakecuda_sticky = ILLEGAL_ADDRESS;
    for (size_t i = 0; p && i < w->at[1]; i++)
        p[i] += w->value;
}

enum { NAMES = 3 };
static const char *const names[NAMES] = { "heat", "add", "bad" };

int cuModuleLoadData(void **module, const void *text)
{
    BEGIN();
    if (fakecuda_is_unsafe())
        return CAPTURE_UNSUPPORTED;
    *module = (void *)(uintptr_t)text; /* any handle */
    return OK;
}

int cuModuleGetFunction(void **f, void *module, const char *name)
{
    BEGIN();
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(name, names[i]) == 0) {
            *f = (void *)(uintptr_t)names[i];
            return OK;
        }
    *f = fakecuda_ptx(module, name);
    return *f ? OK : NOT_FOUND;
}

static bool is_ptx(const void *f)
{
    size_t i = 0;
    while (i < NAMES && f != names[i])
        i++;
    return i == NAMES;
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **args, void **extra)
{
    (void)gz, (void)by, (void)bz, (void)shared, (void)extra;
    BEGIN();
    struct work w = { .stream = stream };
    if (is_ptx(f)) {
        w.kernel = fakecuda_run_ptx;
        w.to = f;
        w.bytes = gx;
        w.threads = bx;
        memcpy(&w.at[0], args[0], sizeof w.at[0]);
        memcpy(&w.at[1], args[1], sizeof w.at[1]);
        memcpy(&w.at[2], args[2], sizeof(unsigned));
    } else if (strcmp(f, "heat") == 0) {
        w.kernel = heat;
        w.bytes = gy;
        for (int i = 0; i < 3; i++)
            memcpy(&w.at[i], args[i], sizeof w.at[i]);
    } else if (strcmp(f, "add") == 0) {
        w.kernel = add_value;
        memcpy(&w.at[0], args[0], sizeof w.at[0]);
        memcpy(&w.at[1], args[1], sizeof w.at[1]);
        memcpy(&w.value, args[2], sizeof w.value);
    } else {
        fakecuda_sticky = ILLEGAL_ADDRESS; /* a device finds it a tenth of a second later */
        return OK;
    }
    (void)pthread_mutex_lock(&fakecuda_lock);
    fakecuda_add(w);
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return OK;
}

int cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes)
{
    BEGIN();
    char *d = fakecuda_real_of(to, bytes);
    if (!d)
        return INVALID_VALUE;
    int code = cuStreamSynchronize(NULL);
    if (code == OK)
        memset(d, value, bytes);
    return code;
}

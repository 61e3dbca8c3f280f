/* The sensors of a node: how much energy it uses.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Three sources, found below the root of sysfs and in the library of the driver:
 *   powercap  RAPL: energy of the processors (zones "package-...") and of memory ("dram").  The
 *             other zones are parts of these, or contain them
 *   hwmon     without RAPL: energy or power, of each device its first channel, because the other
 *             channels often are parts of it
 *   nvml      energy of the GPUs of NVIDIA; RAPL does not see them
 * A file that cannot be read is skipped when the sensors are found. */
#ifndef FTK_SENSORS_H
#define FTK_SENSORS_H

#include "core/ftk.h"

struct ftk_sensors;

/* Find the sensors, and read them for the first time; GPUs come with a later reading, because the
 * opening does not wait for their driver.  NULL: there is none, or no memory. */
struct ftk_sensors *ftk_sensors_open(const char *sysfs, double now_s);
/* Where the sensors are from, such as "powercap, nvml". */
const char *ftk_sensors_source(const struct ftk_sensors *s);
/* Read all sensors.  *joules: what the node has used since the last reading.  false: not known,
 * because a sensor could not be read, or a counter may have wrapped more than once. */
bool ftk_sensors_read(struct ftk_sensors *s, double now_s, double *joules);
void ftk_sensors_close(struct ftk_sensors *s); /* NULL is fine */

/* ---- nvml.c: GPUs, by a library that is loaded when it is there ----------------------- */

struct ftk_nvml;

/* Begin to load the library, in a thread: the driver takes its time.  NULL: no library, or no
 * memory. */
struct ftk_nvml *ftk_nvml_open(void);
bool ftk_nvml_is_loading(const struct ftk_nvml *n);
/* 0 while the library is being loaded */
int ftk_nvml_count(const struct ftk_nvml *n);
/* Energy of a GPU since its driver was loaded, in millijoules. */
bool ftk_nvml_read(const struct ftk_nvml *n, int gpu, uint64_t *mj);
void ftk_nvml_close(struct ftk_nvml *n); /* NULL is fine */

#endif

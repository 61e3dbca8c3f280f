/* The sensors of a node (see sensors.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Files stay open: a later pread() from the beginning gives the new value of a file of sysfs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sensors.h"

/* More than a package, the memory of a node or a GPU ever draws: a counter that wraps within this
 * power and the time between two readings may have wrapped more than once. */
#define WATTS_MAX 1000.0
#define MICRO 1e-6
#define MILLI 1e-3

enum kind { COUNTER, POWER };

struct sensor {
    enum kind kind;
    int fd;         /* -1: a GPU */
    int gpu;        /* its number */
    double unit;    /* of the value: joules or watts */
    uint64_t range; /* the value after which a counter begins again; 0: it never does */
    uint64_t last;
    bool lost; /* the last reading failed: the next one is only the beginning of an interval */
};

struct ftk_sensors {
    struct sensor *list; /* [n] */
    size_t n;
    struct ftk_nvml *nvml;
    bool awaits_gpus; /* nvml is being loaded */
    double read_s;    /* last reading */
    char source[32];
};

/* ---- values -------------------------------------------------------------------------- */

static bool number_in(int fd, uint64_t *value)
{
    char text[32], *end;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    if (text[0] < '0' || text[0] > '9') /* no sign: power of a battery may be negative */
        return false;
    *value = strtoull(text, &end, 10);
    return *end == '\n' || *end == '\0';
}

static int open_in(const char *dir, const char *name)
{
    char path[FTK_PATH_MAX + 64];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

static bool number_at(const char *dir, const char *name, uint64_t *value)
{
    int fd = open_in(dir, name);
    bool good = fd >= 0 && number_in(fd, value);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return good;
}

/* The text of a file without its newline; "": it cannot be read. */
static void text_at(const char *dir, const char *name, char *text, size_t bytes)
{
    int fd = open_in(dir, name);
    ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

static bool value_of(const struct ftk_sensors *s, const struct sensor *x, uint64_t *value)
{
    return x->fd >= 0 ? number_in(x->fd, value) : ftk_nvml_read(s->nvml, x->gpu, value);
}

/* ---- finding ------------------------------------------------------------------------- */

/* Add a sensor, which then owns its file, if it can be read; false: it cannot. */
static bool add(struct ftk_sensors *s, struct sensor x)
{
    struct sensor *more = NULL;
    if (value_of(s, &x, &x.last))
        more = realloc(s->list, (s->n + 1) * sizeof *more);
    if (!more) {
        if (x.fd >= 0)
            (void)close(x.fd);
        return false;
    }
    s->list = more;
    s->list[s->n++] = x;
    return true;
}

static bool add_file(
    struct ftk_sensors *s, const char *dir, const char *name, enum kind kind, uint64_t range)
{
    struct sensor x = { .kind = kind, .fd = open_in(dir, name), .unit = MICRO, .range = range };
    return x.fd >= 0 && add(s, x);
}

/* A zone is "intel-rapl:0", and a part of it "intel-rapl:0:1", on machines of AMD, too. */
static void add_zone(struct ftk_sensors *s, const char *dir, const char *entry)
{
    char name[32];
    uint64_t range = 0;
    if (strncmp(entry, "intel-rapl:", 11) != 0)
        return;
    text_at(dir, "name", name, sizeof name);
    bool part = strchr(entry + 11, ':') != NULL;
    if (part ? strcmp(name, "dram") != 0 : strncmp(name, "package", 7) != 0)
        return;
    if (number_at(dir, "max_energy_range_uj", &range))
        (void)add_file(s, dir, "energy_uj", COUNTER, range); /* else it is skipped */
}

static void add_device(struct ftk_sensors *s, const char *dir, const char *entry)
{
    (void)entry;
    if (!add_file(s, dir, "energy1_input", COUNTER, 0)
        && !add_file(s, dir, "power1_average", POWER, 0))
        (void)add_file(s, dir, "power1_input", POWER, 0);
}

/* Call fn for each directory of a class of devices; whether it has added sensors. */
static bool add_class(struct ftk_sensors *s, const char *sysfs, const char *name,
    void (*fn)(struct ftk_sensors *s, const char *dir, const char *entry))
{
    char class[FTK_PATH_MAX], dir[2 * FTK_PATH_MAX];
    const struct dirent *e;
    size_t had = s->n;
    int n = snprintf(class, sizeof class, "%s/class/%s", sysfs, name);
    DIR *d = n < (int)sizeof class ? opendir(class) : NULL;
    if (!d)
        return false;
    while ((e = readdir(d)) != NULL) {
        n = snprintf(dir, sizeof dir, "%s/%s", class, e->d_name);
        if (e->d_name[0] != '.' && n < (int)sizeof dir)
            fn(s, dir, e->d_name);
    }
    (void)closedir(d);
    return s->n > had;
}

/* The GPUs are known now, or there are none.  Whether sensors were added. */
static bool add_gpus(struct ftk_sensors *s)
{
    size_t had = s->n;
    s->awaits_gpus = false;
    for (int i = 0; i < ftk_nvml_count(s->nvml); i++)
        (void)add(s, (struct sensor){ .kind = COUNTER, .fd = -1, .gpu = i, .unit = MILLI });
    if (s->n == had)
        return false;
    snprintf(s->source + strlen(s->source), sizeof s->source - strlen(s->source), "%snvml",
        had > 0 ? ", " : "");
    return true;
}

struct ftk_sensors *ftk_sensors_open(const char *sysfs, double now_s)
{
    struct ftk_sensors *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    const char *node = add_class(s, sysfs, "powercap", add_zone)  ? "powercap"
                       : add_class(s, sysfs, "hwmon", add_device) ? "hwmon"
                                                                  : "";
    s->nvml = ftk_nvml_open();
    s->awaits_gpus = s->nvml != NULL;
    if (s->n == 0 && !s->nvml) {
        ftk_sensors_close(s);
        return NULL;
    }
    snprintf(s->source, sizeof s->source, "%s", node);
    s->read_s = now_s;
    return s;
}

const char *ftk_sensors_source(const struct ftk_sensors *s)
{
    return s->source;
}

/* ---- reading ------------------------------------------------------------------------- */

/* Add what a sensor has seen since its last reading.  The power between two readings is their
 * mean. */
static bool add_used(const struct sensor *x, uint64_t now, double seconds, double *joules)
{
    uint64_t counted = now - x->last;
    if (x->kind == POWER) {
        *joules += 0.5 * ((double)x->last + (double)now) * x->unit * seconds;
        return true;
    }
    if (x->range > 0 && (double)x->range * x->unit < WATTS_MAX * seconds)
        return false;
    if (now < x->last && x->range < x->last) /* begun anew: the driver was loaded again */
        return false;
    if (now < x->last)
        counted = x->range - x->last + now;
    *joules += (double)counted * x->unit;
    return true;
}

bool ftk_sensors_read(struct ftk_sensors *s, double now_s, double *joules)
{
    bool known = s->n > 0;
    double sum = 0, seconds = now_s - s->read_s;
    for (size_t i = 0; i < s->n; i++) {
        struct sensor *x = &s->list[i];
        uint64_t now = 0;
        bool was_lost = x->lost;
        x->lost = !value_of(s, x, &now);
        known = known && !x->lost && !was_lost && add_used(x, now, seconds, &sum);
        x->last = now;
    }
    s->read_s = now_s;
    if (s->awaits_gpus && !ftk_nvml_is_loading(s->nvml) && add_gpus(s))
        return false; /* what they have used in this interval is not known */
    if (known)
        *joules = sum;
    return known;
}

void ftk_sensors_close(struct ftk_sensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        if (s->list[i].fd >= 0)
            (void)close(s->list[i].fd); /* nothing was written */
    ftk_nvml_close(s->nvml);
    free(s->list);
    free(s);
}

/* VeloC's file of settings: read, found at the start, and put into words of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/compat.h"
#include "config.h"

enum key { SCRATCH, PERSISTENT, MODE, INTERVAL, VERSIONS, KNOWN };
static const char *const known[KNOWN] = { "scratch", "persistent", "mode", "persistent_interval",
    "max_versions" };
/* Nothing is missing without these: each set has redundancy and checksums, hosts are looked up. */
static const char *const needless[] = { "chksum", "meta", "ec_interval", "failure_domain" };

struct found {
    char value[KNOWN][1024];
    char others[512]; /* keys without effect */
};

static bool is_needless(const char *key)
{
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        if (strcmp(key, needless[i]) == 0)
            return true;
    return false;
}

static void take(const char *section, const char *key, const char *value, void *arg)
{
    struct found *f = arg;
    (void)section; /* the file has none */
    for (int i = 0; i < KNOWN; i++) {
        if (strcmp(key, known[i]) == 0) {
            snprintf(f->value[i], sizeof f->value[i], "%s", value);
            return;
        }
    }
    const size_t used = strlen(f->others);
    if (!is_needless(key))
        snprintf(f->others + used, sizeof f->others - used, "%s%s", used ? ", " : "", key);
}

static bool take_variables(struct found *f)
{
    bool good = true;
    for (int i = 0; i < KNOWN; i++) {
        char name[64] = "VELOC_";
        for (size_t n = strlen(name), k = 0; known[i][k]; k++, n++)
            name[n] = (char)toupper((unsigned char)known[i][k]);
        const char *value = getenv(name);
        if (!value || !*value)
            continue;
        const int n = snprintf(f->value[i], sizeof f->value[i], "%s", value);
        if (n < 0 || (size_t)n >= sizeof f->value[i]) {
            ftk_compat_say("%s: the value is too long", name);
            good = false;
        }
    }
    return good;
}

/* A whole number, or the default for an empty text. */
static bool number(const char *path, const struct found *f, enum key key, long least, long *out)
{
    const char *text = f->value[key];
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    if (errno == 0 && *end == '\0' && *out >= least && *out <= INT_MAX)
        return true;
    ftk_compat_say("%s: %s = %s is not a whole number from %ld", path, known[key], text, least);
    return false;
}

static bool understand(const char *path, const struct found *f, struct ftk_veloc_config *c)
{
    const char *mode = f->value[MODE];
    if (strcmp(mode, "sync") != 0 && strcmp(mode, "async") != 0) {
        ftk_compat_say("%s: mode = %s: it must be sync or async", path, mode);
        return false;
    }
    c->waits = mode[0] == 's';
    if (!*f->value[SCRATCH]) { /* as VeloC does, although nothing is written there */
        ftk_compat_say("%s: scratch is missing", path);
        return false;
    }
    if (!ftk_compat_nameable(f->value[PERSISTENT])) {
        ftk_compat_say("%s: persistent = %s: a blank before # or ;", path, f->value[PERSISTENT]);
        return false;
    }
    memcpy(c->persistent, f->value[PERSISTENT], sizeof c->persistent);
    return number(path, f, INTERVAL, -1, &c->interval_s)
           && number(path, f, VERSIONS, 0, &c->versions);
}

bool ftk_veloc_read(const char *path, bool said, struct ftk_veloc_config *config)
{
    struct found f;
    memset(&f, 0, sizeof f);
    memset(config, 0, sizeof *config);
    if (!path || !ftk_compat_read(path, take, &f)) {
        ftk_compat_say("%s: %s", path ? path : "VELOC_Init", path ? strerror(errno) : "no file");
        return false;
    }
    if (!take_variables(&f))
        return false;
    if (said && *f.others)
        ftk_compat_say("%s: without effect: %s", path, f.others);
    return understand(path, &f, config);
}

bool ftk_veloc_same(const struct ftk_veloc_config *a, const struct ftk_veloc_config *b)
{
    return strcmp(a->persistent, b->persistent) == 0 && a->interval_s == b->interval_s
           && a->versions == b->versions && a->waits == b->waits;
}

/* ---- at the start -------------------------------------------------------------------- */

static void has_scratch(const char *section, const char *key, const char *value, void *arg)
{
    if (!*section && strcmp(key, "scratch") == 0 && *value)
        *(bool *)arg = true;
}

/* Whether a file looks like one of VeloC's: an input of the program may be large. */
static bool is_config(const char *path)
{
    enum { MOST = 65536 };
    struct stat at;
    bool found = false;
    return stat(path, &at) == 0 && S_ISREG(at.st_mode) && at.st_size <= MOST
           && ftk_compat_read(path, has_scratch, &found) && found;
}

/* The program may call MPI_Init(NULL, NULL), so its arguments come from the system. */
bool ftk_veloc_find(char *path, unsigned long bytes)
{
    const char *given = getenv("FTKIT_VELOC_CONFIG");
    char *arg = NULL;
    size_t room = 0;
    bool found = false;
    if (given && *given)
        return snprintf(path, bytes, "%s", given) < (int)bytes;
    FILE *f = fopen("/proc/self/cmdline", "r");
    if (!f)
        return false;
    for (int i = 0; !found && getdelim(&arg, &room, '\0', f) >= 0; i++)
        found = i > 0 && strlen(arg) < bytes && is_config(arg);
    if (found)
        memcpy(path, arg, strlen(arg) + 1);
    free(arg);
    return fclose(f) == 0 && found;
}

void ftk_veloc_ini(const struct ftk_veloc_config *c, char *ini)
{
    ftk_compat_ini_begin(ini, true);
    if (!c)
        return;
    ftk_compat_ini(ini, "[level.hdf5]\n");
    if (!*c->persistent || c->interval_s < 0)
        ftk_compat_ini(ini, "enabled = false\n");
    if (*c->persistent) {
        if (!ftk_compat_directory(c->persistent)) /* ftkit_open() ends with its name, too */
            ftk_compat_say("persistent = %s is no directory", c->persistent);
        ftk_compat_ini(ini, "directory = %s\n", c->persistent);
    }
    if (c->interval_s > 0)
        ftk_compat_ini(ini, "every = %lds\n", c->interval_s);
    ftk_compat_ini(
        ini, "keep = %ld\n", c->versions == 0 || c->versions > 1000000 ? 1000000 : c->versions);
    if (c->waits)
        ftk_compat_ini(ini, "asynchronous = false\n");
}

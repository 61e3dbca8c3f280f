/* The settings of SCR: found, checked, and put into words of ftkit (settings.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/compat.h"
#include "settings.h"

enum { VALUE_BYTES = 1024 };
enum source { NOBODY, THE_FILE, THE_PROGRAM, THE_ENVIRONMENT };

static struct setting {
    const char *const name;
    const bool is_number;
    enum source source;
    char value[VALUE_BYTES];
} settings[FTK_SCR_SETTINGS] = {
    [FTK_SCR_PREFIX] = { "SCR_PREFIX", false },
    [FTK_SCR_CACHE] = { "SCR_CACHE_BASE", false },
    [FTK_SCR_COPY] = { "SCR_COPY_TYPE", false },
    [FTK_SCR_SET_SIZE] = { "SCR_SET_SIZE", true },
    [FTK_SCR_FAILURES] = { "SCR_SET_FAILURES", true },
    [FTK_SCR_BACKGROUND] = { "SCR_FLUSH_ASYNC", true },
    [FTK_SCR_FLUSH] = { "SCR_FLUSH", true },
    [FTK_SCR_INTERVAL] = { "SCR_CHECKPOINT_INTERVAL", true },
    [FTK_SCR_SECONDS] = { "SCR_CHECKPOINT_SECONDS", true },
    [FTK_SCR_OVERHEAD] = { "SCR_CHECKPOINT_OVERHEAD", true },
};

/* Nothing is missing without these: the levels of ftkit take the place of the cache, each set has
 * checksums, hosts are looked up, and nothing is copied from files before a start. */
static const char *const needless[] = { "SCR_CACHE_BYPASS", "SCR_CACHE_SIZE", "SCR_CACHE_PURGE",
    "SCR_CNTL_BASE", "SCR_CONF_FILE", "SCR_CRC_ON_COPY", "SCR_CRC_ON_DELETE", "SCR_CRC_ON_FLUSH",
    "SCR_DEBUG", "SCR_DISTRIBUTE", "SCR_ENABLE", "SCR_FETCH", "SCR_FETCH_BYPASS",
    "SCR_FETCH_CURRENT", "SCR_FETCH_WIDTH", "SCR_FILE_BUF_SIZE", "SCR_FLUSH_POSTSTAGE",
    "SCR_FLUSH_TYPE", "SCR_FLUSH_WIDTH", "SCR_GLOBAL_RESTART", "SCR_GROUP", "SCR_JOB_ID",
    "SCR_JOB_NAME", "SCR_LOG_ENABLE", "SCR_MPI_BUF_SIZE", "SCR_PURGE", "SCR_RUNS",
    "SCR_SET_VERBOSE", "SCR_USER_NAME" };

static char without_effect[512];
static char prefix[PATH_MAX];

static struct setting *find(const char *name)
{
    for (int i = 0; i < FTK_SCR_SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

static void note_unknown(const char *name)
{
    const size_t used = strlen(without_effect);
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        if (strcmp(name, needless[i]) == 0)
            return;
    snprintf(without_effect + used, sizeof without_effect - used, "%s%s", used ? ", " : "", name);
}

/* A source that comes later in the order of enum source takes the place of an earlier one. */
static bool set(struct setting *s, const char *value, enum source source)
{
    if (source < s->source)
        return true;
    if (strlen(value) >= sizeof s->value) {
        ftk_compat_say("%s: the value is too long", s->name);
        return false;
    }
    snprintf(s->value, sizeof s->value, "%s", value);
    s->source = source;
    return true;
}

static void take(const char *section, const char *key, const char *value, void *arg)
{
    struct setting *s = find(key);
    bool *good = arg;
    (void)section; /* the file has none */
    if (!s)
        note_unknown(key);
    else if (!set(s, value, THE_FILE))
        *good = false;
}

/* ---- checks -------------------------------------------------------------------------- */

static bool is_whole(const struct setting *s)
{
    char *end;
    errno = 0;
    const long n = strtol(s->value, &end, 10);
    if (!*s->value || (errno == 0 && *end == '\0' && n >= 0 && n <= INT_MAX))
        return true;
    ftk_compat_say("%s = %s is not a whole number from 0", s->name, s->value);
    return false;
}

/* The scheme of ftkit; NULL: SCR has no such type. */
static const char *scheme(void)
{
    static const char *const names[][2] = { { "SINGLE", "own" }, { "PARTNER", "buddy" },
        { "XOR", "xor" }, { "RS", "rs" } };
    const char *type = settings[FTK_SCR_COPY].value;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(type, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

/* Find the directory of the program: as SCR_PREFIX says, else where the job was started. */
static bool find_prefix(void)
{
    const char *given = settings[FTK_SCR_PREFIX].value;
    if (*given && !ftk_compat_directory(given))
        ftk_compat_say("SCR_PREFIX = %s is no directory", given);
    else if (!realpath(*given ? given : ".", prefix))
        ftk_compat_say("SCR_PREFIX = %s: %s", given, strerror(errno));
    else if (!ftk_compat_nameable(prefix))
        ftk_compat_say("SCR_PREFIX = %s: a blank before # or ;", prefix);
    else
        return true;
    return false;
}

static bool check(void)
{
    for (int i = 0; i < FTK_SCR_SETTINGS; i++)
        if (settings[i].is_number && !is_whole(&settings[i]))
            return false;
    if (*settings[FTK_SCR_COPY].value && !scheme()) {
        ftk_compat_say("SCR_COPY_TYPE = %s: it must be SINGLE, PARTNER, XOR or RS",
            settings[FTK_SCR_COPY].value);
        return false;
    }
    if (!ftk_compat_nameable(settings[FTK_SCR_CACHE].value)) {
        ftk_compat_say("SCR_CACHE_BASE: a blank before # or ;");
        return false;
    }
    return find_prefix();
}

/* ---- reading ------------------------------------------------------------------------- */

/* SCR_CONF_FILE has to be there; .scrconf in the directory of the program may be. */
static bool read_file(void)
{
    char path[PATH_MAX + sizeof "/.scrconf"];
    bool good = true;
    const char *given = getenv("SCR_CONF_FILE"), *dir = getenv("SCR_PREFIX");
    const bool must = given && *given;
    if (must)
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s/.scrconf", dir && *dir ? dir : ".");
    if (ftk_compat_read(path, take, &good))
        return good;
    if (!must && errno == ENOENT)
        return true;
    ftk_compat_say("%s: %s", path, strerror(errno));
    return false;
}

static bool read_all(bool said)
{
    for (int i = 0; i < FTK_SCR_SETTINGS; i++) {
        const char *value = getenv(settings[i].name);
        if (value && *value && !set(&settings[i], value, THE_ENVIRONMENT))
            return false;
    }
    if (!read_file())
        return false;
    if (said && *without_effect)
        ftk_compat_say("without effect: %s", without_effect);
    return check();
}

bool ftk_scr_settings(bool said)
{
    static enum { NOT_READ, GOOD, BAD } result;
    if (result == NOT_READ)
        result = read_all(said) ? GOOD : BAD;
    return result == GOOD;
}

const char *ftk_scr_prefix(void)
{
    return prefix;
}

long ftk_scr_number(enum ftk_scr_setting setting, long fallback)
{
    const char *value = settings[setting].value;
    return *value ? strtol(value, NULL, 10) : fallback;
}

/* A set is written when the program completes a checkpoint, and at no other moment. */
void ftk_scr_ini(char *ini)
{
    const long size = ftk_scr_number(FTK_SCR_SET_SIZE, 0);
    const long failures = ftk_scr_number(FTK_SCR_FAILURES, 0);
    ftk_compat_ini_begin(ini, false); /* many programs communicate behind SCR_Have_restart */
    ftk_compat_ini(ini, "[level.hdf5]\ndirectory = %s\n", prefix);
    if (ftk_scr_number(FTK_SCR_BACKGROUND, 1) == 0)
        ftk_compat_ini(ini, "asynchronous = false\n");
    if (*settings[FTK_SCR_CACHE].value)
        ftk_compat_ini(ini, "[files]\ndirectory = %s\n", settings[FTK_SCR_CACHE].value);
    if (scheme() || size > 0 || failures > 0)
        ftk_compat_ini(ini, "[level.memory]\n");
    if (scheme())
        ftk_compat_ini(ini, "scheme = %s\n", scheme());
    if (size > 0)
        ftk_compat_ini(ini, "group = %ld\n", size);
    if (failures > 0)
        ftk_compat_ini(ini, "parity = %ld\n", failures);
}

/* ---- SCR_Config ---------------------------------------------------------------------- */

static const char *value_of(const struct setting *s)
{
    return s && *s->value ? s->value : NULL;
}

static const char *change(struct setting *s, const char *value, bool opened)
{
    const struct setting before = *s;
    if (s->source > THE_PROGRAM)
        return value_of(s);
    if (s - settings < FTK_SCR_OPENED && opened && strcmp(value, s->value) != 0) {
        ftk_compat_say("SCR_Config: %s has its value since MPI_Init: set it as a variable of the "
                       "environment, or in the file of settings",
            s->name);
        return NULL;
    }
    if (set(s, value, THE_PROGRAM) && (!s->is_number || is_whole(s)))
        return value_of(s);
    s->source = before.source;
    memcpy(s->value, before.value, sizeof s->value);
    return NULL;
}

const char *ftk_scr_config(const char *setting, bool opened)
{
    char name[64] = "";
    const char *equals = strchr(setting, '=');
    const size_t n = equals ? (size_t)(equals - setting) : strlen(setting);
    if (n < sizeof name)
        memcpy(name, setting, n);
    struct setting *s = find(name);
    if (!equals)
        return value_of(s);
    if (s)
        return change(s, equals + 1, opened);
    *without_effect = '\0';
    note_unknown(name);
    if (*without_effect && ftk_compat.rank == 0)
        ftk_compat_say("SCR_Config: without effect: %s", without_effect);
    return NULL;
}

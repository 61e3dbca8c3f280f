/* FTI's file of settings, in words of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/compat.h"
#include "config.h"

enum key { GLBL_DIR, CKPT_L1, CKPT_L2, CKPT_L3, CKPT_L4, GROUP_SIZE, KEEP_LAST, KNOWN };
static const char *const known[KNOWN] = { "glbl_dir", "ckpt_l1", "ckpt_l2", "ckpt_l3", "ckpt_l4",
    "group_size", "keep_last_ckpt" };
/* Nothing is missing without these: hosts are looked up, helper threads take the place of heads,
 * all sets have checksums and only changes travel, and no other files are written. */
static const char *const needless[] = { "head", "node_size", "ckpt_dir", "meta_dir", "inline_l2",
    "inline_l3", "inline_l4", "verbosity", "failure", "exec_id", "block_size", "transfer_size",
    "mpi_tag", "general_tag", "ckpt_tag", "stage_tag", "final_tag", "max_sync_intv", "max_var_id",
    "dcp_l4", "local_test", "lustre_striping_unit", "lustre_striping_factor",
    "lustre_striping_offset", "enable_dcp", "dcp_mode", "dcp_block_size", "dcp_stack_size",
    "h5_single_file_enable", "h5_single_file_inline", "h5_single_file_dir", "h5_single_file_keep",
    "h5_single_file_prefix", "ckpt_io", "keep_heads_alive", "fast_forward", "enable_staging" };

struct found {
    char value[KNOWN][1024];
    char others[512]; /* keys without effect */
};

/* Their values of these say that something is not wanted. */
static bool is_off(const char *value)
{
    return !*value || strcmp(value, "0") == 0;
}

static bool is_needless(const char *key)
{
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        if (strcasecmp(key, needless[i]) == 0)
            return true;
    return false;
}

static void take(const char *section, const char *key, const char *value, void *arg)
{
    struct found *f = arg;
    (void)section; /* each key is in one section only */
    for (int i = 0; i < KNOWN; i++) {
        if (strcasecmp(key, known[i]) == 0) {
            snprintf(f->value[i], sizeof f->value[i], "%s", value);
            return;
        }
    }
    const size_t used = strlen(f->others);
    if (!is_needless(key) && !is_off(value))
        snprintf(f->others + used, sizeof f->others - used, "%s%s", used ? ", " : "", key);
}

static bool number(
    const char *path, const struct found *f, enum key key, long least, long otherwise, long *out)
{
    const char *text = f->value[key];
    char *end;
    errno = 0;
    *out = *text ? strtol(text, &end, 10) : otherwise;
    if (!*text || (errno == 0 && *end == '\0' && *out >= least && *out <= 1000000))
        return true;
    ftk_compat_say("%s: %s = %s is not a whole number from %ld", path, known[key], text, least);
    return false;
}

/* The levels in minutes [5], from 1; the defaults of FTI. */
static bool understand(const char *path, const struct found *f, long *every, long *group)
{
    static const long otherwise[] = { 0, 3, 5, 7, 11 };
    for (int l = 1; l <= 4; l++)
        if (!number(path, f, (enum key)(CKPT_L1 + l - 1), 0, otherwise[l], &every[l]))
            return false;
    if (!number(path, f, GROUP_SIZE, 2, 4, group))
        return false;
    if (*group <= 32)
        return true;
    ftk_compat_say("%s: group_size = %ld: it is 2 to 32", path, *group);
    return false;
}

/* false: a line says why. */
static bool look_for_mark(const char *path, const struct found *f, struct ftk_fti_keep *keep)
{
    long last;
    const char *dir = *f->value[GLBL_DIR] ? f->value[GLBL_DIR] : ".";
    if (!number(path, f, KEEP_LAST, 0, 0, &last))
        return false;
    keep->last = last != 0;
    if (snprintf(keep->mark, sizeof keep->mark, "%s/ftkit-fti-finished", dir)
        >= (int)sizeof keep->mark) {
        ftk_compat_say("glbl_dir = %s: the path is too long", dir);
        return false;
    }
    keep->over = access(keep->mark, F_OK) == 0;
    return true;
}

static void write_ini(const struct found *f, const long *every, long group,
    const struct ftk_fti_keep *keep, char *ini)
{
    long period = 0;
    for (int l = 1; l <= 4; l++)
        if (every[l] > 0 && (period == 0 || every[l] < period))
            period = every[l];
    ftk_compat_ini_begin(ini, true);
    if (keep->over)
        ftk_compat_ini(ini, "start = fresh\n");
    if (period > 0)
        ftk_compat_ini(ini, "[checkpoint]\nperiod = %ldmin\n", period);
    else /* only FTI_Checkpoint() */
        ftk_compat_ini(ini, "[checkpoint]\nperiod = 1000000000 calls\n");
    if (every[3] > 0)
        ftk_compat_ini(
            ini, "[level.memory]\nscheme = rs\ngroup = %ld\nparity = %ld\n", group, group / 2);
    ftk_compat_ini(ini, "[level.hdf5]\n");
    if (*f->value[GLBL_DIR]) {
        if (!ftk_compat_directory(f->value[GLBL_DIR])) /* ftkit_open() ends with its name, too */
            ftk_compat_say("glbl_dir = %s is no directory", f->value[GLBL_DIR]);
        ftk_compat_ini(ini, "directory = %s\n", f->value[GLBL_DIR]);
    }
    if (keep->last)
        ftk_compat_ini(ini, "every = 1 sets\n");
    else if (every[4] > 0)
        ftk_compat_ini(ini, "every = %ldmin\n", every[4]);
    else
        ftk_compat_ini(ini, "every = 1000000000 sets\n");
}

bool ftk_fti_ini(const char *path, bool said, struct ftk_fti_keep *keep, char *ini)
{
    struct found f;
    long every[5] = { 0 }, group;
    memset(&f, 0, sizeof f);
    if (!path || !ftk_compat_read(path, take, &f)) {
        ftk_compat_say("%s: %s", path ? path : "FTI_Init", path ? strerror(errno) : "no file");
        return false;
    }
    if (said && *f.others)
        ftk_compat_say("%s: without effect: %s", path, f.others);
    if (!understand(path, &f, every, &group) || !look_for_mark(path, &f, keep))
        return false;
    write_ini(&f, every, group, keep, ini);
    return true;
}

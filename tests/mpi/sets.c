/* What there is in a directory of sets: the numbers of the complete ones, newest first, on
 * one line, after every byte of them has been checked; then a line for whatever else is
 * there.
 *
 *     sets DIRECTORY CONTEXT
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/durable/sets.h"

static int pass(const void *head, const struct ftk_manifest_part *p, void *arg)
{
    (void)head, (void)p, (void)arg;
    return FTKIT_OK;
}

static int check(const char *dir, const char *context, uint64_t set)
{
    struct ftk_manifest m;
    int rc = ftk_sets_open(dir, context, set, &m);
    if (rc != FTKIT_OK)
        return rc;
    for (uint32_t i = 0; i < m.nparts && rc == FTKIT_OK; i++)
        rc = m.level->heads(dir, &m, i, pass, NULL);
    for (uint32_t r = 0; r < m.nranks && rc == FTKIT_OK; r++) {
        void *seg = NULL;
        size_t bytes;
        rc = ftk_sets_read(dir, &m, (int)r, &seg, &bytes);
        free(seg);
    }
    ftk_manifest_free(&m);
    return rc;
}

/* Temporary files, and directories without a complete set. */
static void list_rest(const char *dir, const char *context, const uint64_t *sets, int n)
{
    char path[FTK_PATH_MAX + 300], name[32];
    snprintf(path, sizeof path, "%s/%s.ftkit", dir, context);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        bool known = e->d_name[0] == '.' || strcmp(e->d_name, "owner") == 0
                     || strcmp(e->d_name, "status") == 0 || strcmp(e->d_name, "finished") == 0;
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "set-%010llu", (unsigned long long)sets[i]);
            known |= strcmp(name, e->d_name) == 0;
        }
        if (!known)
            printf("incomplete %s\n", e->d_name);
        snprintf(path, sizeof path, "%s/%s.ftkit/%s", dir, context, e->d_name);
        DIR *in = known && e->d_name[0] != '.' ? opendir(path) : NULL;
        for (const struct dirent *f; in && (f = readdir(in));)
            if (strstr(f->d_name, ".tmp"))
                printf("temporary %s/%s\n", e->d_name, f->d_name);
        if (in)
            closedir(in);
    }
    if (d)
        closedir(d);
}

int main(int argc, char **argv)
{
    uint64_t *sets = NULL;
    int n = 0;
    if (argc != 3)
        return 2;
    int rc = ftk_sets_list(argv[1], argv[2], &sets, &n);
    printf("complete");
    for (int i = 0; i < n && rc == FTKIT_OK; i++) {
        printf(" %llu", (unsigned long long)sets[i]);
        rc = check(argv[1], argv[2], sets[i]);
    }
    printf("\n");
    if (rc != FTKIT_OK)
        printf("bad: %s\n", ftk_detail_text());
    else
        list_rest(argv[1], argv[2], sets, n);
    free(sets);
    return rc != FTKIT_OK;
}

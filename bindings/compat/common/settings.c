/* The files of the peers, and the INI file of ftkit that follows from them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "compat.h"

enum { LINE_BYTES = 4096, VALUE_BYTES = 1024 /* of a struct found */ };

/* The text without blanks at both ends; changes s. */
static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
    return s;
}

static void cut_comment(char *s)
{
    for (char *p = s; *p; p++) {
        if ((*p == '#' || *p == ';') && (p == s || isspace((unsigned char)p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

bool ftk_compat_read(const char *path, ftk_compat_key_fn *fn, void *arg)
{
    char line[LINE_BYTES], section[FTK_COMPAT_NAME_BYTES] = "";
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    int problem = 0;
    while (problem == 0 && fgets(line, sizeof line, f)) {
        if (strlen(line) == sizeof line - 1) /* the rest would be another line */
            problem = ENAMETOOLONG;
        cut_comment(line);
        char *text = trim(line), *equals = strchr(text, '=');
        const size_t n = strlen(text);
        if (*text == '[' && text[n - 1] == ']') {
            text[n - 1] = '\0';
            snprintf(section, sizeof section, "%s", trim(text + 1));
        } else if (equals) {
            *equals = '\0';
            const char *value = trim(equals + 1);
            if (strlen(value) >= VALUE_BYTES) /* it would be cut, and be another directory */
                problem = ENAMETOOLONG;
            fn(section, trim(text), value, arg);
        }
    }
    if (problem == 0 && ferror(f))
        problem = EIO;
    if (fclose(f) != 0 && problem == 0)
        problem = errno;
    errno = problem;
    return problem == 0;
}

void ftk_compat_ini_refuse(char *ini)
{
    snprintf(ini, FTK_COMPAT_INI_BYTES, "the settings of a rank cannot be used\n");
}

void ftk_compat_ini(char *ini, const char *format, ...)
{
    const size_t used = strlen(ini);
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(ini + used, FTK_COMPAT_INI_BYTES - used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= FTK_COMPAT_INI_BYTES - used)
        ftk_compat_ini_refuse(ini);
}

/* The programs know nothing of repairs, so they use MPI_COMM_WORLD, communicate in set-up, and a
 * rank cannot go back in most places.  Only the message log replaces one rank and leaves all others
 * alone; without the log the job is relaunched. */
void ftk_compat_ini_begin(char *ini, bool log)
{
    *ini = '\0';
#ifdef FTK_COMPAT_LOG
    const char *text = getenv("FTKIT_LOG_ENABLED");
    if (text && *text)
        log = !strchr("fFnN0", *text) && strncasecmp(text, "of", 2) != 0;
#else
    log = false;
#endif
    ftk_compat_ini(ini,
        log ? "[log]\nenabled = true\nteams = rank\n[recover]\n" : "[recover]\nsupply = end\n");
}

bool ftk_compat_nameable(const char *path)
{
    bool good = true;
    for (const char *p = path; *p && good; p++)
        good = *p != '\n' && !(isspace((unsigned char)*p) && (p[1] == '#' || p[1] == ';'));
    return good;
}

bool ftk_compat_directory(const char *path)
{
    struct stat at;
    return mkdir(path, 0777) == 0
           || (errno == EEXIST && stat(path, &at) == 0 && S_ISDIR(at.st_mode));
}

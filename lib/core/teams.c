/* Teams of the message log as text (see teams.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"
#include "teams.h"

#define FILE_MAX ((size_t)64 << 20) /* bytes of a file: many times what a team file has */

/* ---- the text ------------------------------------------------------------------------ */

struct parser {
    const char *at, *end;
    bool file;
    int line; /* from 1 */
    int nteams;
    int n;
    int *team;  /* [n] -1: not in a team yet; NULL: only the form is checked */
    bool ranks; /* a list of ranks: blanks and commas separate them, and there are no teams */
    struct ftk_teams_flaw *flaw;
};

FTK_PRINTF(2, 3) static bool wrong(struct parser *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ftk_vformat(p->flaw->why, sizeof p->flaw->why, fmt, ap);
    va_end(ap);
    p->flaw->line = p->file ? p->line : 0;
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A carriage return is a blank, too, because it may stand before a newline. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool at_end_of_team(const struct parser *p)
{
    return p->at == p->end || is_blank(*p->at) || *p->at == '\n' || (p->file && *p->at == '#');
}

static bool parse_rank(struct parser *p, int *rank)
{
    long v = 0;
    if (at_end_of_team(p) || *p->at == ',')
        return wrong(p, "a rank is missing");
    if (!is_digit(*p->at)) {
        unsigned char c = (unsigned char)*p->at;
        return c > ' ' && c < 0x7f ? wrong(p, "'%c' where a rank should be", c)
                                   : wrong(p, "byte 0x%02x where a rank should be", c);
    }
    for (; p->at < p->end && is_digit(*p->at); p->at++)
        if (v <= FTK_TEAM_RANK_MAX)
            v = 10 * v + (*p->at - '0');
    if (v > FTK_TEAM_RANK_MAX)
        return wrong(p, "a rank is above %d", FTK_TEAM_RANK_MAX);
    *rank = (int)v;
    return true;
}

static bool enter(struct parser *p, int first, int last)
{
    if (last >= p->n)
        return wrong(p, "rank %d is out of range: the ranks are 0 to %d", last, p->n - 1);
    for (int r = first; r <= last; r++) {
        if (p->team[r] >= 0 && p->ranks)
            return wrong(p, "rank %d is there twice", r);
        if (p->team[r] >= 0)
            return wrong(p, "rank %d is in %s already", r,
                p->team[r] == p->nteams ? "this team" : "another team");
        p->team[r] = p->nteams;
    }
    return true;
}

/* "7" or "4-7" */
static bool parse_item(struct parser *p)
{
    int first = 0, last = 0;
    if (!parse_rank(p, &first))
        return false;
    last = first;
    if (p->at < p->end && *p->at == '-') {
        p->at++;
        if (!parse_rank(p, &last))
            return false;
        if (last < first)
            return wrong(p, "the range %d-%d ends before it begins", first, last);
    }
    return !p->team || enter(p, first, last);
}

static bool parse_team(struct parser *p)
{
    while (parse_item(p)) {
        if (at_end_of_team(p)) {
            p->nteams++;
            return true;
        }
        if (*p->at != ',') {
            unsigned char c = (unsigned char)*p->at;
            return c > ' ' && c < 0x7f ? wrong(p, "'%c' behind a rank", c)
                                       : wrong(p, "byte 0x%02x behind a rank", c);
        }
        p->at++;
    }
    return false;
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && (is_blank(*p->at) || (!p->file && *p->at == '\n')))
        p->at++;
}

/* Skip the rest of a line of a file.  False: there is more than blanks and a comment. */
static bool end_line(struct parser *p)
{
    skip_blanks(p);
    if (p->at < p->end && *p->at == '#')
        while (p->at < p->end && *p->at != '\n')
            p->at++;
    if (p->at < p->end && *p->at != '\n') /* two teams, or a team with blanks in it */
        return wrong(p, "a blank in a team: a line is one team, ranks with commas between");
    p->at += p->at < p->end;
    p->line++;
    return true;
}

static bool parse_all(struct parser *p)
{
    while (p->at < p->end) {
        skip_blanks(p);
        bool team = p->at < p->end && *p->at != '\n' && !(p->file && *p->at == '#');
        if (team && !parse_team(p))
            return false;
        if (p->file && p->at < p->end && !end_line(p))
            return false;
    }
    return true;
}

bool ftk_teams_parse(
    const char *text, size_t bytes, bool file, int n, int *team, struct ftk_teams_flaw *flaw)
{
    struct parser p = {
        .at = text, .end = text + bytes, .file = file, .line = 1, .n = n, .team = team, .flaw = flaw
    };
    int in = 0;
    for (int r = 0; team && r < n; r++)
        team[r] = -1;
    if (!parse_all(&p))
        return false;
    for (int r = 0; team && r < n; r++)
        in += team[r] >= 0;
    p.line = 0; /* a missing rank is on no line */
    for (int r = 0; team && r < n; r++)
        if (team[r] < 0)
            return wrong(&p, "rank %d is in no team (%d of %d ranks are)", r, in, n);
    return p.nteams > 0 || wrong(&p, "there is no team in it");
}

bool ftk_teams_parse_ranks(const char *list, int n, int *there, struct ftk_teams_flaw *flaw)
{
    struct parser p = {
        .at = list, .end = list + strlen(list), .n = n, .team = there, .ranks = true, .flaw = flaw
    };
    for (int r = 0; there && r < n; r++)
        there[r] = -1;
    return parse_all(&p) && (p.nteams > 0 || wrong(&p, "there is no rank in it"));
}

/* ---- sources ------------------------------------------------------------------------- */

int ftk_teams_of_list(const char *list, int n, int *team)
{
    struct ftk_teams_flaw flaw;
    if (ftk_teams_parse(list, strlen(list), false, n, team, &flaw))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_CONFIG, "log.team_list: %s", flaw.why);
}

/* Fail with FTKIT_ERR_CONFIG, as for every mistake in a configuration. */
static int fail_file(const char *path, int err, const char *why)
{
    char text[64];
    return ftk_fail(FTKIT_ERR_CONFIG, "log.team_file: %s: %s", path,
        err ? strerror_r(err, text, sizeof text) : why);
}

static int read_all(const char *path, int fd, char *text, size_t room, size_t *bytes)
{
    size_t got = 0;
    while (got < room) {
        ssize_t n = read(fd, text + got, room - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_file(path, errno, NULL);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *bytes = got;
    return FTKIT_OK;
}

/* Read a whole file; the caller frees *text.  Only regular files: a pipe would block, or be empty
 * on all processes but one. */
static int read_file(const char *path, char **text, size_t *bytes)
{
    struct stat st;
    int rc = FTKIT_OK;
    char *buf = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_file(path, errno, NULL);
    if (fstat(fd, &st) != 0)
        rc = fail_file(path, errno, NULL);
    else if (!S_ISREG(st.st_mode))
        rc = fail_file(path, S_ISDIR(st.st_mode) ? EISDIR : 0, "it is not a regular file");
    else if ((uint64_t)st.st_size > FILE_MAX)
        rc = fail_file(path, EFBIG, NULL);
    else if (!(buf = malloc((size_t)st.st_size + 1)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "log.team_file: %s", path);
    else
        rc = read_all(path, fd, buf, (size_t)st.st_size + 1, bytes);
    if (rc == FTKIT_OK && *bytes > (size_t)st.st_size)
        rc = fail_file(path, 0, "it grows while it is read");
    close(fd); /* nothing was written, so there is nothing to lose */
    if (rc == FTKIT_OK)
        *text = buf;
    else
        free(buf);
    return rc;
}

int ftk_teams_of_file(const char *path, int n, int *team)
{
    struct ftk_teams_flaw flaw;
    char *text = NULL;
    size_t bytes = 0;
    int rc = read_file(path, &text, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    if (!ftk_teams_parse(text, bytes, true, n, team, &flaw))
        rc = flaw.line > 0
                 ? ftk_fail(FTKIT_ERR_CONFIG, "log.team_file: %s:%d: %s", path, flaw.line, flaw.why)
                 : ftk_fail(FTKIT_ERR_CONFIG, "log.team_file: %s: %s", path, flaw.why);
    free(text);
    return rc;
}

void ftk_teams_of_keys(const struct ftk_config *cfg, const int *domain, int n, int *team)
{
    for (int r = 0; r < n; r++) {
        team[r] = r;
        if (cfg->log_teams == FTK_TEAMS_ALL)
            team[r] = 0;
        if (cfg->log_team_size > 0)
            team[r] = r / cfg->log_team_size;
        else if (cfg->log_teams == FTK_TEAMS_DOMAIN)
            for (int q = r - 1; q >= 0 && team[r] == r; q--)
                team[r] = domain[q] == domain[r] ? team[q] : r;
    }
}

int ftk_teams_silent(const char *list, const int *team, int n, bool *silent)
{
    struct ftk_teams_flaw flaw;
    memset(silent, 0, (size_t)n * sizeof *silent);
    if (!*list)
        return FTKIT_OK;
    int *there = malloc((size_t)n * sizeof *there);
    bool *keeps_none = calloc((size_t)n, sizeof *keeps_none); /* by team */
    int rc = there && keeps_none ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "log.silent");
    if (rc == FTKIT_OK && !ftk_teams_parse_ranks(list, n, there, &flaw))
        rc = ftk_fail(FTKIT_ERR_CONFIG, "log.silent: %s", flaw.why);
    for (int r = 0; rc == FTKIT_OK && r < n; r++)
        if (there[r] >= 0)
            keeps_none[team ? team[r] : r] = true;
    for (int r = 0; rc == FTKIT_OK && r < n; r++)
        silent[r] = keeps_none[team ? team[r] : r];
    free(there);
    free(keeps_none);
    return rc;
}

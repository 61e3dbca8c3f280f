/* Teams of the message log as text: log.team_list, log.team_file, and the proposal of
 * `ftkit teams`; and the ranks of log.silent.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     0-3,8 4-7 9
 *
 * A team consists of ranks and ranges of ranks, separated by commas, without blanks.  In a list
 * a blank ends a team.  In a file a team is a line, blank lines are skipped, and '#' begins a
 * comment.  Every rank is in exactly one team. */
#ifndef FTK_TEAMS_H
#define FTK_TEAMS_H

#include "config.h"

#define FTK_TEAM_RANK_MAX 999999999

struct ftk_teams_flaw {
    int line; /* of a file, from 1; 0: no particular line */
    char why[160];
};

/* Set team [n] to the team of each of n ranks, a number below n, from a text.  False: *flaw has the
 * reason, and team must not be used.  With team = NULL only the form is checked. */
bool ftk_teams_parse(
    const char *text, size_t bytes, bool file, int n, int *team, struct ftk_teams_flaw *flaw);

/* Read the ranks of log.silent, such as "0 4-7": there [n] is -1 for each other rank.  False: *flaw
 * has the reason, and there must not be used.  With there = NULL only the form is checked. */
bool ftk_teams_parse_ranks(const char *list, int n, int *there, struct ftk_teams_flaw *flaw);

/* Teams from log.team_list or a file.  FTKIT_ERR_CONFIG: the detail has file, line and the mistake.
 * team [n]. */
int ftk_teams_of_list(const char *list, int n, int *team);
int ftk_teams_of_file(const char *path, int n, int *team);

/* The same by log.team_size or log.teams, if there is neither list nor file.  domain [n]: failure
 * domain of each rank.  A team of a domain is named by its first rank. */
void ftk_teams_of_keys(const struct ftk_config *cfg, const int *domain, int n, int *team);

/* Set silent [n]: whether the team of a rank has a rank of log.silent.  team [n], each below n;
 * NULL: each rank is a team.  FTKIT_ERR_CONFIG: the detail has the mistake.  FTKIT_ERR_NOMEM. */
int ftk_teams_silent(const char *list, const int *team, int n, bool *silent);

#endif

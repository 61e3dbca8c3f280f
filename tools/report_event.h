/* ftkit report: the members of one event, by jansson.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_REPORT_EVENT_H
#define FTKIT_TOOLS_REPORT_EVENT_H

#include <jansson.h>

#include "report.h"

struct rp_event {
    json_t *o;
    double t;
    int64_t pid, rank;
    const char *context; /* "": none */
    const char *word;    /* which event */
};

/* Parse a line.  false: the line is no event.  True: end with ftk_rp_drop(). */
bool ftk_rp_parse(const char *line, size_t bytes, struct rp_event *e);
void ftk_rp_drop(struct rp_event *e);
/* A number within 0 .. max, else otherwise. */
double ftk_rp_real(const json_t *o, const char *name, double max, double otherwise);
/* An integer within low .. high, else otherwise. */
int64_t ftk_rp_int(const json_t *o, const char *name, int64_t low, int64_t high, int64_t otherwise);
const char *ftk_rp_str(const json_t *o, const char *name, const char *otherwise);
void ftk_rp_ranks(const json_t *o, const char *name, struct rp_ranks *l);

#define RP_CALLS_MAX 1e15
#define RP_BYTES_MAX 1e18
#define RP_SECONDS_MAX 1e9
#define RP_JOULES_MAX 1e15

#endif

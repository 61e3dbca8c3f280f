/* ftkit report: what its charts share.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_REPORT_SVG_H
#define FTKIT_TOOLS_REPORT_SVG_H

#include "report.h"

enum rp_unit { RP_COUNT, RP_TIME, RP_BYTES };

struct rp_plot {
    FILE *out;
    double width, height, left, right, top, bottom; /* pixels; the last four are margins */
    double x0, x1, y0, y1;                          /* data */
    bool log_y;                                     /* y0 and y1 are powers of ten */
};

double ftk_svg_x(const struct rp_plot *p, double x);
double ftk_svg_y(const struct rp_plot *p, double y);
/* <figure>, its legend comes next */
void ftk_svg_figure(FILE *out, const char *title);
/* One entry of the legend: shape is the SVG of a swatch of 34 x 14 pixels. */
void ftk_svg_legend(FILE *out, const char *shape, const char *text);
void ftk_svg_begin(const struct rp_plot *p, const char *label, const char *svg_class);
void ftk_svg_end(const struct rp_plot *p, const char *caption);
/* Grid, ticks and titles; x is in seconds, shown in the unit for at least so many. */
void ftk_svg_x_axis(const struct rp_plot *p, const char *title, double least);
/* x is wall time since the start of the run. */
void ftk_svg_time_axis(const struct rp_plot *p);
void ftk_svg_y_axis(const struct rp_plot *p, const char *title, enum rp_unit unit);
/* A line with a name at every failure and lost attempt. */
void ftk_svg_failures(const struct rp_plot *p, const struct rp_log *log);

#endif

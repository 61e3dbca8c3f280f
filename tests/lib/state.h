/* The state of the message log in a test program (state.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef STATE_H
#define STATE_H

/* Print a line for each variable that closing has not reset; the line fails the test. */
void check_state(void);

#endif

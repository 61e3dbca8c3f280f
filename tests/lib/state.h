/* The state of the message log in a test program (state.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef STATE_H
#define STATE_H

/* Marks in memory: state.c, state_end.c. */
extern volatile char state_mark_data, state_mark_bss, state_end_data, state_end_bss;

/* Print a line for each variable that closing has not reset; the line fails the test. */
void check_state(void);

#endif

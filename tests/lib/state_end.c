/* The end of the variables of ftkit in a test program (state.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "state.h"

volatile char state_end_data = 1, state_end_bss;

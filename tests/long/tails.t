#!/bin/sh
# Kills in the last calls of a job: more visits of fault points.
FTKIT_TEST_COUNT="${FTKIT_TEST_COUNT:-60}" exec tests/tails.t

#!/bin/sh
# Open outcomes of replicas: more kills of each program.
FTKIT_TEST_COUNT="${FTKIT_TEST_COUNT:-10}" exec tests/outcomes.t

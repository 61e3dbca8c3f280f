#!/bin/sh
# Open outcomes of replicas: more kills of each program.
export FTKIT_TEST_COUNT="${FTKIT_TEST_COUNT:-10}"
exec tests/outcomes.t --all

#!/bin/sh
# Every process is killed at every step of a repair, and more kills at random.
FTKIT_TEST_RANDOM="${FTKIT_TEST_RANDOM:-120}" exec tests/repair.t --all

#!/bin/sh
# Every way to die with every way to recover, on each rank.
FTKIT_TEST_ALL=1 exec tests/ends.t

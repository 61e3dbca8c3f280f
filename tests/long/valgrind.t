#!/bin/sh
# Every unit test under valgrind.
exec tests/valgrind.t --all

#!/bin/sh
# Every rank is killed at every visit, and every pair.
exec tests/parity.t --all

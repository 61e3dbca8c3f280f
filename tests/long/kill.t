#!/bin/sh
# Every rank is killed at every visit.
exec tests/kill.t --all

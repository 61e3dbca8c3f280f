#!/bin/sh
# Two ranks are killed at each point of each program.
exec tests/foreign.t --all

#!/bin/sh
# Incremental sets: every rank dies at every point.
exec tests/incremental.t --all

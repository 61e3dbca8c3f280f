#!/bin/sh
# Incremental sets: every rank dies at every visit.
exec tests/incremental.t --all

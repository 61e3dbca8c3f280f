#!/bin/sh
# The model of the message log, a small instance (all of it: make model, and tests/long/whole.t).
#
# SPDX-License-Identifier: BSD-3-Clause
exec scripts/model --short

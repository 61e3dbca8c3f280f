#!/bin/sh
# The model of the message log, a small instance (all of it: make model).
#
# SPDX-License-Identifier: BSD-3-Clause
exec scripts/model --short

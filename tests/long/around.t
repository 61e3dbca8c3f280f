#!/bin/sh
# Waits and scrubs around ftkit_checkpoint(): each place alone, too.
exec tests/around.t --all

#!/usr/bin/env bash
# Kills at any moment: four processes that save after every step are killed, all or one of them, and whatever is left must hold a
# whole checkpoint from which the next four go on. Ends with the first that does not.
#
#   bench/kills.sh [KILLS]
set -eu
cd "$(dirname "$0")/.."
export OCTANT_KILLS=${1:-200}
time cargo test --workspace --test processes processes_killed_while_they_save -- --nocapture

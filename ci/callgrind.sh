#!/usr/bin/env bash
# Instructions of the stepper: divide "Collected" by the steps that the example prints.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -q --release -p wbexplore --example count_steps
# The measured part only: without process start and the first execution.
valgrind --tool=callgrind --callgrind-out-file=target/callgrind.out --toggle-collect='*measured*' "${CARGO_TARGET_DIR:-target}"/release/examples/count_steps

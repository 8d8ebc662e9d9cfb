#!/usr/bin/env bash
# preliminary: old and new after each stage, and each labelled class (fig:pre-exp).
#
# Cost:    3 runs a seed; 0.4 hours, 0.4 for each further seed; 77 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  the figure's numbers are not printed
# Compare: Self-training alone: New collapses. With entropy and initialisation: New is there and goes up and down; the
#          labelled
#          classes differ in how much they lose.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper preliminary --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

#!/usr/bin/env bash
# orders: Happy and Calm over five class orders; not in the paper.
#
# Cost:    15 runs a seed; 1.6 hours, 1.6 for each further seed; 384 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  the paper has one order and no spread
# Compare: The deviation over orders beside that over seeds: how much of a difference between two papers is their class
#          order.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper orders --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

#!/usr/bin/env bash
# unknown-k: the number of new classes estimated (tab:unknown-class-number).
#
# Cost:    9 runs a seed; 1.0 hours, 0.9 for each further seed; 77 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  average All / Old / New: vanilla_gcd 58.72/62.66/32.92, metagcd 63.28/67.65/34.94, happy 68.80/72.40/45.74
# Compare: Happy loses 0.2 of All against the known number; beside it stands our estimate.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper unknown-k --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

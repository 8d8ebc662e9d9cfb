#!/usr/bin/env bash
# hardness: hardness-aware sampling and its temperature (fig:ablation-hardness, tab:sensitivity-tau-h).
#
# Cost:    28 runs a seed; 4.7 hours, 4.5 for each further seed; 428 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  average All at tau_h = 0.01, 0.05, 0.1, 1, 10: cifar100 66.4 68.06 69.0 68.01 67.59; tiny_imagenet 62.36
#          64.95 65.56 64.76 63.93
# Compare: A peak at 0.1; without hardness below it on each of the four data sets (the figure's numbers are not
#          printed).
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper hardness --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

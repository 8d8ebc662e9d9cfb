#!/usr/bin/env bash
# ablation: Happy's parts switched on one after another (tab:main-ablation).
#
# Cost:    16 runs a seed; 1.0 hours, 1.0 for each further seed; 91 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  average All, cifar100 and cub, rows (a) to (g): 50.95/53.28, 57.67/59.26, 58.26/63.11, 60.51/64.53,
#          57.75/57.67, 66.89/66.36, 69.0/68.88
# Compare: Each part adds; entropy and initialisation together bring New, prototypes and distillation bring Old.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper ablation --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

#!/usr/bin/env bash
# lambdas: the three weights of the loss (tab:appendix-sensitivity, tab:sensitivity-lambda1, tab:sensitivity-
#          lambda2, tab:sensitivity-lambda3).
#
# Cost:    14 runs a seed; 1.5 hours, 1.5 for each further seed; 77 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  average All: lambda1 = 0, 0.5, 1, 3, 5: 60.60 69.04 69.00 63.98 59.23
#          lambda2 = 0, 0.5, 1, 3, 5: 65.31 66.98 69.00 69.30 68.90
#          lambda3 = 0, 0.5, 0.7, 1, 3: 68.74 68.94 69.16 69.00 68.92
# Compare: lambda3 hardly matters, lambda1 most; the best are near 1.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper lambdas --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

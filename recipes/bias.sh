#!/usr/bin/env bash
# bias: prediction bias and hardness bias (tab:bias-mitigation, tab:prob-bias-mitigation, tab:hard-bias-mitigation).
#
# Cost:    8 runs a seed; 0.6 hours, 0.6 for each further seed; 91 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  dp / dr, cifar100 and cub: without entropy 81.50/63.25 83.20/65.80, with 5.76/10.20 10.25/11.05
#          Var_0 / Acc_h: without hardness 23.04/65.10 21.77/62.65, with 10.33/70.23 9.28/68.40
# Compare: Over all test images a model without bias has a dp of 66.7, so compare the paper's dp with the balanced one,
#          too.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper bias --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

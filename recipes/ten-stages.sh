#!/usr/bin/env bash
# ten-stages: ten stages instead of five (tab:10-step, tab:appendix-10-step-cifar100-full,
#          tab:appendix-10-step-tiny-full).
#
# Cost:    12 runs a seed; 2.6 hours, 2.5 for each further seed; 270 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  All after stage 10, cifar100 and tiny_imagenet: vanilla_gcd 55.15 48.56, metagcd 56.51 48.92, happy 57.81
#          50.69
# Compare: Happy first after every stage; the distance shrinks towards the last.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper ten-stages --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

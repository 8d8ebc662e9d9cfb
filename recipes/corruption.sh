#!/usr/bin/env bash
# corruption: test images of shifted distributions, CIFAR-100-C at severity 2 (fig:appendix-corruption).
#
# Cost:    5 runs a seed; 0.8 hours, 0.7 for each further seed; 125 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  the figure's numbers are not printed
# Compare: Happy first on each distribution. Needs CIFAR-100-C beside CIFAR-100; with --own-corruptions they are made
#          here.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper corruption --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

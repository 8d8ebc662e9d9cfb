#!/usr/bin/env bash
# forgetting: forgetting M_f and discovery M_d (tab:discover-forget-cifar100-tiny).
#
# Cost:    12 runs a seed; 2.6 hours, 2.5 for each further seed; 227 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  M_f / M_d, cifar100 and tiny_imagenet: vanilla_gcd 17.10/33.42 20.20/32.22, frost 22.82/45.34 21.62/34.96,
#          metagcd 16.56/37.76 19.30/33.68, happy 11.22/51.36 9.75/43.38
# Compare: Happy forgets least and discovers most.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper forgetting --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

#!/usr/bin/env bash
# fine-grained: cars and aircraft (tab:appendix-fine-grained).
#
# Cost:    10 runs a seed; 0.3 hours, 0.3 for each further seed; 32 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  average All / Old / New: cars vanilla_gcd 47.0/47.73/42.61; cars metagcd 54.67/55.28/50.95; cars happy
#          62.79/63.68/57.34; aircraft vanilla_gcd 42.95/44.35/33.38; aircraft metagcd 47.16/48.61/38.23; aircraft happy
#          53.1/53.81/48.71
# Compare: Happy first on both.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper fine-grained --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

#!/usr/bin/env bash
# confidence: confidence in old and new classes (fig:appendix-conf-metrics, subfig:appendix-conf-msp,
#          subfig:appendix-conf-mls, subfig:appendix-conf-margin, subfig:appendix-negative-entropy, fig:pre-exp).
#
# Cost:    3 runs a seed; 0.4 hours, 0.4 for each further seed; 77 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  the figure's numbers are not printed
# Compare: Test images of new classes get less confidence than those of old ones, by all four measures.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper confidence --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

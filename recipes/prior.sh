#!/usr/bin/env bash
# prior: the true ratio of new images in the entropy term (fig:prior-accuracy, fig:prior-ratio).
#
# Cost:    3 runs a seed; 0.4 hours, 0.4 for each further seed; 77 GB of tokens
#          (one GPU of an A100's class, reckoned: recipes/README.md)
# Expect:  the figure's numbers are not printed
# Compare: The true ratio lowers All, because the predicted share of new images then exceeds it.
#
# DATA is where the data sets lie; further flags go to the command, such as --plan, --only happy or --weights FILE.
set -euo pipefail
happycat paper prior --root "${DATA:-data}" --seeds 3 --cache-gb 100 --out runs/paper "$@"

#!/usr/bin/env bash
# quarter: the paper's experiments on data that fits two cores of a CPU: a quarter of CIFAR-100, and 196 models of car.
#
# Cost:    hours to days on two cores: `recipes/quarter.sh --plan` says it, experiment by experiment
# Expect:  docs/results/README.md, and the paper's order of methods
# Compare: three seeds of `main` and `ablation` with their deviation, five class orders, both ways to test k-means
#
# QUARTER and CARS are folders of images by class, {train,test}/CLASS/*; ORDER has the quarter's class names in the published
# order, one a line; CLIP is a file with the weights of CLIP's ViT-B/16. Further flags go to every command, such as --plan.
set -euo pipefail
clip=(--backbone vit_base_patch16_clip_quickgelu_224 --weights "$CLIP" --image-size 160 --views 2 --base-epochs 30)
quarter=(--dataset "$QUARTER" --paper-dataset cifar100 --class-order "$ORDER" "${clip[@]}")
cars=(--dataset "$CARS" --paper-dataset cars --base-classes 98 --new-per-class 25 --old-per-class 5 "${clip[@]}")

happycat paper tuning "${quarter[@]}" --out runs/quarter "$@"
happycat paper main "${quarter[@]}" --seeds 3 --out runs/quarter "$@"
happycat paper main "${quarter[@]}" --seeds 3 --out runs/quarter --evaluation transductive \
    --results runs/quarter/results/transductive --only kmeans --only vanilla_gcd --only metagcd "$@"
for name in ablation bias preliminary; do
    happycat paper "$name" "${quarter[@]}" --seeds 3 --epochs 10 --out runs/quarter "$@"
done
for name in lambdas orders ten-stages; do
    happycat paper "$name" "${quarter[@]}" --epochs 10 --out runs/quarter "$@"
done
happycat paper corruption "${quarter[@]}" --own-corruptions --out runs/quarter "$@"
for name in fine-grained main; do
    happycat paper "$name" "${cars[@]}" --out runs/cars "$@"
done

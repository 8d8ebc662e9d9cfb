#!/usr/bin/env bash
# Two "machines" on one: network namespaces with a cable (veth) between them, a process on each, started by torchrun.
# Runs a small bench on both and compares it with one process. Needs root and iproute2; nothing leaves this machine.
#   sudo benchmarks/two_nodes.sh [PYTHON]
set -euo pipefail
python=${1:-python}
folder=$(mktemp -d)
words="bench happy glyphs --option num_classes=8 --option per_class=20 --base-classes 4 --stages 2 --views 2
       --base-epochs 3 --epochs 2 --batch-size 16 --base-optimizer adamw --base-rate 0.001"

cleanup() {
    for node in a b; do ip netns pids "happycat-$node" 2>/dev/null | xargs -r kill 2>/dev/null || true; done
    for node in a b; do ip netns delete "happycat-$node" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap cleanup EXIT

for node in a b; do
    ip netns add "happycat-$node"
    ip -n "happycat-$node" link set lo up
done
ip link add happycat-a netns happycat-a type veth peer name happycat-b netns happycat-b
ip -n happycat-a address add 10.213.0.1/24 dev happycat-a
ip -n happycat-b address add 10.213.0.2/24 dev happycat-b
ip -n happycat-a link set happycat-a up
ip -n happycat-b link set happycat-b up

node() { # NAME RANK: torchrun on one of the nodes, with gloo on its end of the cable
    ip netns exec "happycat-$1" env GLOO_SOCKET_IFNAME="happycat-$1" OMP_NUM_THREADS=1 \
        "$python" -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --node-rank "$2" \
        --master-addr 10.213.0.1 --master-port 29555 -m happycat $words --out "$folder/two"
}
node b 1 >"$folder/b.log" 2>&1 &
second=$!
node a 0 2>&1 | tail -12
wait "$second" || { tail -20 "$folder/b.log"; exit 1; }
OMP_NUM_THREADS=1 "$python" -m happycat $words --out "$folder/one" >/dev/null 2>&1
for stage in 0 1 2; do
    for file in scores.json predictions.csv; do
        # probabilities in their last digits apart, which a sum in another order changes
        same() { sed -E 's/(\.[0-9]{3})[0-9]+/\1/g' "$folder/$1/stages/$stage/$file"; }
        diff -q <(same one) <(same two) >/dev/null && echo "stage $stage $file: the same" || echo "stage $stage $file: differs"
    done
done

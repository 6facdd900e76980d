#!/usr/bin/env bash
# bench/plan_accuracy.sh [NETWORK[:WORKERS] ...]: predicted against measured step time and memory of
# real runs on 2 and 4 workers; LeNet, VGG-16 and ResNet-50 at full size unless others are named.
# Prints a table (Markdown), also in out/plan_accuracy/table.md.
#
# Workers of one machine share its cores, which no plan knows. So that they do not, each is slowed:
# what it computes is followed by a sleep, SLOWDOWN times as long in all (default: so that all
# workers together want at most half of the cores). STEPS minibatches per run (default 24).
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
[ $# -gt 0 ] || set -- lenet:2 lenet:4 resnet50:2 resnet50:4 vgg16:2 vgg16:4
cluster_begin plan_accuracy
steps=${STEPS:-24}
cores=$(nproc)


run() {
  local network=$1 count=$2 batch lr slowdown data
  case $network in
    lenet) batch=64 lr=0.02 ;;
    vgg7) batch=32 lr=0.02 ;;
    alexnet) batch=8 lr=0.001 ;;
    resnet50) batch=4 lr=0.001 ;;
    vgg16) batch=2 lr=0.0001 ;;
    *) die "unknown network $network" ;;
  esac
  slowdown=${SLOWDOWN:-$(((2 * count + cores - 1) / cores))}
  data=$out/$network-data
  [ -f "$out/$network.onnx" ] || "$bin/make-model" "$network" "$out/$network.onnx" >&2
  [ -d "$data" ] || "$bin/make-model" "$network" --data "$data" "$((batch * 4))" >&2
  start_coordinator
  local i
  for ((i = 1; i <= count; ++i)); do start_worker "w$i" --slowdown "$slowdown" --speed 1e9; done
  await_workers
  submit --model "$out/$network.onnx" --data "$data" --loss cross_entropy --optimizer sgd --lr "$lr" \
    --momentum 0.9 --batch-size "$batch" --epochs "$((steps / 4))" --no-shuffle --no-evaluate --no-ledger \
    --workers "$count" ${FLAGS:-} --name "$network"
  follow
  client describe job "$job" >"$out/$network-$count.txt"
  job_paths | awk -v network="$network" -v workers="$count" -f "$root/bench/plan_accuracy.awk" >>"$out/rows.md"
  stop_cluster
}

: >"$out/rows.md"
for what in "$@"; do
  network=${what%%:*}
  for count in 2 4; do
    [ "$what" = "$network" ] || [ "$what" = "$network:$count" ] || continue
    echo "== $network on $count workers" >&2
    run "$network" "$count"
  done
done
{
  echo "| network | workers | plan | step predicted | measured | difference | memory predicted | measured | difference |"
  echo "|---|---|---|---|---|---|---|---|---|"
  cat "$out/rows.md"
} | tee "$out/table.md"

#!/usr/bin/env bash
# bench/unlike_workers.sh [NETWORK]: three workers, one of them half as fast. Trains with the plan
# that takes them for equal, and with the one that knows; prints both rates.
#
# All workers are slowed (a sleep follows what they compute), so that they do not share the cores.
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
network=${1:-vgg7}
cluster_begin unlike_workers
batch=${BATCH:-32}
steps=${STEPS:-120}
base=$(((6 + $(nproc) - 1) / $(nproc)))  # twice as many cores as the three want
[ -f "$out/$network.onnx" ] || "$bin/make-model" "$network" "$out/$network.onnx"
[ -d "$out/$network-data" ] || "$bin/make-model" "$network" --data "$out/$network-data" $((batch * 4))

# run NAME FLAG...: of all workers
run() {
  local name=$1
  shift
  echo "== $name" >&2
  start_coordinator
  start_worker w1 --slowdown "$base" "$@"
  start_worker w2 --slowdown "$base" "$@"
  start_worker w3 --slowdown $((2 * base)) "$@"
  await_workers
  submit --model "$out/$network.onnx" --data "$out/$network-data" --loss cross_entropy --optimizer sgd \
    --lr 0.001 --batch-size "$batch" --epochs $((steps / 4)) --no-shuffle --no-evaluate --no-ledger ${FLAGS:-} --name "$name"
  follow
  client get workers >&2
  client describe job "$job" >"$out/$name.txt"
  job_paths >"$out/$name.paths"
  stop_cluster
  awk -v name="$name" -f "$root/bench/plan_row.awk" "$out/$name.paths" >>"$out/rows.md"
}

: >"$out/rows.md"
run equal --speed 1e9
run measured
{
  echo "| plan for workers that are | stages | step predicted | measured | samples/s |"
  echo "|---|---|---|---|---|"
  cat "$out/rows.md"
} | tee "$out/table.md"

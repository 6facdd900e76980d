#!/usr/bin/env bash
# bench/slow_link.sh [NETWORK]: three workers in network namespaces, one behind a slow link. Trains
# with the plan that was made while all links were fast, and with the one made for the links as they
# are; prints both rates. Needs the right to make network namespaces; ends with code 77 without it.
# FAST and SLOW are rates as tc takes them.
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
network=${1:-vgg7}
cluster_begin slow_link
network_begin
fast=${FAST:-2gbit}
slow=${SLOW:-30mbit}
batch=${BATCH:-32}
steps=${STEPS:-120}
slowdown=$(((6 + $(nproc) - 1) / $(nproc)))
[ -f "$out/$network.onnx" ] || "$bin/make-model" "$network" "$out/$network.onnx"
[ -d "$out/$network-data" ] || "$bin/make-model" "$network" --data "$out/$network-data" $((batch * 4))
arguments=(--model "$out/$network.onnx" --data "$out/$network-data" --loss cross_entropy --optimizer sgd --lr 0.001
  --batch-size "$batch" --epochs $((steps / 4)) --no-shuffle --no-evaluate --no-ledger)

begin() {
  for id in w1 w2 w3; do give_link "$id" "$fast"; done
  give_link w2 "$1"
  start_coordinator
  for id in w1 w2 w3; do start_worker "$id" --slowdown "$slowdown" --speed 1e9; done
  await_workers
}

# run NAME ARGUMENT...
run() {
  local name=$1
  shift
  submit "${arguments[@]}" "$@" --name "$name"
  follow
  client describe job "$job" >"$out/$name.txt"
  job_paths >"$out/$name.paths"
  awk -v name="$name" -f "$root/bench/plan_row.awk" "$out/$name.paths" >>"$out/rows.md"
}

: >"$out/rows.md"
echo "== the plan for fast links" >&2
begin "$fast"
client plan "${arguments[@]}" -o json >"$out/fast-plan.json"
stop_cluster
begin "$slow"
run "fast links" --plan "$out/fast-plan.json"
echo "== the plan for the links as they are" >&2
run "measured links"
stop_cluster
{
  echo "| plan for | stages | step predicted | measured | samples/s |"
  echo "|---|---|---|---|---|"
  cat "$out/rows.md"
} | tee "$out/table.md"

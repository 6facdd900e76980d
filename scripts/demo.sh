#!/usr/bin/env bash
# Trains LeNet on Fashion-MNIST through a pipeline of four workers on this machine: installs what is
# missing, builds, starts a coordinator and the workers, submits, follows, exports.
# Everything it writes is below out/demo; nothing is left running.
set -euo pipefail
cd "$(dirname "$0")/.."

out=out/demo
bin=$PWD/build/release/bin
data=/usr/share/datasets/fashion-mnist
names=()
seconds=()

# part NAME COMMAND...: runs it and remembers how long it took.
part() {
  local name=$1 start end
  shift
  printf '\n== %s\n' "$name"
  start=$(date +%s.%N)
  "$@"
  end=$(date +%s.%N)
  names+=("$name")
  seconds+=("$(echo "$start $end" | awk '{printf "%.1f", $2 - $1}')")
}

# Runs inside `pipedream local`, which sets PIPEDREAM_SERVER.
job() {
  export PATH=$bin:$PATH
  pipedream get workers
  local id
  id=$(pipedream submit -f examples/lenet-fashion.yaml --set model="$out/lenet.onnx" -o name)
  id=${id#job/}
  pipedream logs "$id" --follow
  echo
  pipedream describe job "$id"
  pipedream export "$id" --onnx "$out/lenet-trained.onnx"
}

train() {
  "$bin/pipedream" local --workers 4 --state-dir "$out/state" -- bash "$0" --job
}

if [ "${1:-}" = --job ]; then
  job
  exit 0
fi

rm -rf "$out"
mkdir -p "$out"
part "Set up" scripts/setup.sh --demo
part "Build" scripts/build.sh release pipedream pipedream-coordinator pipedream-worker make-model
part "Write the model" "$bin/make-model" lenet "$out/lenet.onnx"
part "Train" train

printf '\n== Times\n'
for i in "${!names[@]}"; do printf '  %-18s %8s s\n' "${names[$i]}" "${seconds[$i]}"; done
printf '\nThe trained model: %s\n' "$PWD/$out/lenet-trained.onnx"

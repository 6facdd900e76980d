#!/usr/bin/env bash
# bench/full_size.sh [NETWORK...]: AlexNet, VGG-16 and ResNet-50 at ImageNet size on synthetic data: plans
# them on two workers, takes a few pipelined steps, and prints predicted against measured step time
# and memory. Needs a release build (scripts/build.sh) and about 10 GB of memory.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/build/release/bin
out=out/full_size
mkdir -p "$out"

if [ "${1:-}" = --job ]; then
  export PATH=$bin:$PATH
  network=$2
  batch=$3
  id=$(pipedream submit --model "$out/$network.onnx" --data "$out/$network" --loss cross_entropy \
       --optimizer sgd --lr "$4" --momentum 0.9 --epochs 6 --batch-size "$batch" --no-shuffle \
       --stages 2 --workers 2 --max-replicas 1 --name "$network" -o name)
  pipedream logs "${id#job/}" --follow --progress plain
  pipedream describe job "${id#job/}" --events 0
  exit 0
fi

[ $# -gt 0 ] || set -- alexnet resnet50 vgg16
for network in "$@"; do
  case $network in
    alexnet) batch=8 lr=0.01 ;;
    resnet50) batch=4 lr=0.005 ;;
    vgg16) batch=2 lr=0.001 ;;
    *) echo "unknown network $network" >&2; exit 2 ;;
  esac
  printf '\n== %s, batch %s\n' "$network" "$batch"
  [ -f "$out/$network.onnx" ] || "$bin/make-model" "$network" "$out/$network.onnx"
  [ -d "$out/$network" ] || "$bin/make-model" "$network" --data "$out/$network" $((batch * 1))
  "$bin/pipedream" local --workers 2 --threads 1 -- bash "$0" --job "$network" "$batch" "$lr"
done

#!/usr/bin/env bash
# bench/headline.sh [--docs]: the paper's experiment in miniature. Four workers in network namespaces
# whose links are limited train a network in VGG's shape on Fashion-MNIST, data parallel and by the
# plan: time to the same test accuracy and bytes moved, side by side. With --docs, table and plot go
# to docs/headline.md and docs/headline.svg. Needs root for the namespaces; ends with code 77 without.
#
# RATE (as tc takes it; default 100mbit) limits each worker's link in each direction; TARGET is the
# accuracy in percent (default 80). An epoch is SAMPLES images (default 4096), so that there are
# evaluations often enough. Workers are slowed (a sleep follows what they compute), so that the four
# do not share the machine's cores.
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
docs=no
[ "${1:-}" = --docs ] && docs=yes
cluster_begin headline
network_begin
rate=${RATE:-100mbit}
target=${TARGET:-80}
batch=${BATCH:-32}
samples=${SAMPLES:-4096}
slowdown=${SLOWDOWN:-$(((8 + $(nproc) - 1) / $(nproc)))}
data=/usr/share/datasets/fashion-mnist
[ -d "$data" ] || die "no $data; run scripts/setup.sh --demo"
[ -f "$out/vgg7.onnx" ] || "$bin/make-model" vgg7 "$out/vgg7.onnx"

# run NAME EPOCHS ARGUMENT...
run() {
  local name=$1 epochs=$2
  shift 2
  echo "== $name" >&2
  submit --model "$out/vgg7.onnx" --data "$data" --limit "$samples" --test-limit 2000 --loss cross_entropy \
    --optimizer sgd --lr "${LR:-0.02}" --momentum 0.9 --epochs "$epochs" --no-ledger \
    --name "${name// /-}" "$@"
  follow "$out/$name.curve"
  client describe job "$job" >"$out/$name.txt"
  job_paths >"$out/$name.paths"
  awk -F '\t' -v bytes="$(cat "$out/moved")" -v epochs="$epochs" -v samples="$samples" -v target="$target" '
    FILENAME ~ /curve$/ {
      split($1, point, " ")
      if (reached == "" && point[2] >= target) { reached = point[1]; epoch = FNR }
      last = point[1]
      next
    }
    {value[$1] = $2}
    $1 ~ /^plan\.stages\.[0-9]+\.workers\./ {split($1, part, "."); ++replicas[part[3]]; n = part[3] + 1}
    END {
      for (s = 0; s < n; ++s) plan = plan (s ? "-" : "") replicas[s]
      step = value["progress.measured_step_s"]
      printf "%s\t%s\t%s\t%.1f\t%.1f\t%.0f\n", plan, reached == "" ? "-" : reached, reached == "" ? "-" : epoch,
        value["spec.batch_size"] / step, 1000 * step, bytes / (epochs * samples)
    }' "$out/$name.curve" "$out/$name.paths" >"$out/$name.row"
}

for id in w1 w2 w3 w4; do give_link "$id" "$rate"; done
start_coordinator
for id in w1 w2 w3 w4; do start_worker "$id" --slowdown "$slowdown" --speed 1e9; done
await_workers
# shellcheck disable=SC2086
run "data parallel" "${EPOCHS:-6}" ${DATA_PARALLEL:---schedule data_parallel --microbatches 4 --batch-size $((4 * batch)) --workers 4}
run "planned pipeline" "${EPOCHS:-6}" --batch-size "$batch"
stop_cluster

for name in "data parallel" "planned pipeline"; do
  awk -v name="$name" '{print name "\t" $1 "\t" $2}' "$out/$name.curve"
done | awk -v title="VGG-7 on Fashion-MNIST, 4 workers, $rate links" -v x_title="seconds of training" \
  -v y_title="test accuracy, %" -v y_from=0 -v mark="$target" -f "$root/bench/plot_svg.awk" >"$out/headline.svg"

{
  echo "| | data parallel | planned pipeline | |"
  echo "|---|---|---|---|"
  paste "$out/data parallel.row" "$out/planned pipeline.row" | awk -F '\t' -v target="$target" '
    function times(a, b) { return a > 0 && b > 0 ? sprintf("%.1f times", a / b) : "-" }
    {
      printf "| plan (replicas per stage) | %s | %s | |\n", $1, $7
      printf "| time to %s %% test accuracy | %s s | %s s | %s faster |\n", target, $2, $8, times($2, $8)
      printf "| epochs to it | %s | %s | |\n", $3, $9
      printf "| samples/s | %s | %s | %s |\n", $4, $10, times($10, $4)
      printf "| bytes moved per sample | %d | %d | %.1f %% fewer |\n", $6, $12, 100 * (1 - $12 / $6)
    }'
} | tee "$out/table.md"

if [ "$docs" = yes ]; then
  cp "$out/headline.svg" "$root/docs/headline.svg"
  {
    echo "# Data parallel against the planned pipeline"
    echo
    echo "Four workers, each behind a link of $rate in each direction (network namespaces), train VGG-7 (\`make-model vgg7\`:"
    echo "4 convolutions, 3 matrices, 2.7 M parameters) on Fashion-MNIST, microbatches of $batch. Made by \`bench/headline.sh --docs\`."
    echo
    cat "$out/table.md"
    echo
    echo "![test accuracy over time](headline.svg)"
  } >"$root/docs/headline.md"
fi

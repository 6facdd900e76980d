# A row of plan_accuracy.sh's table, from a job's json_paths.
BEGIN { FS = "\t" }
{ value[$1] = $2 }
$1 ~ /^plan\.stages\.[0-9]+\.memory\./ {
  split($1, part, ".")
  predicted[part[3]] += $2
}
$1 ~ /^plan\.device_of\.[0-9]+$/ { split($1, part, "."); device_of[part[3]] = $2; placed = 1 }
$1 ~ /^plan\.stages\.[0-9]+\.workers\.[0-9]+$/ { split($1, part, "."); ++replicas[part[3]]; if (part[3] + 1 > stages) stages = part[3] + 1 }
function megabytes(bytes) { return sprintf("%.1f MB", bytes / 1e6) }
function seconds(s) { return s < 1 ? sprintf("%.2f ms", 1000 * s) : sprintf("%.3f s", s) }
END {
  config = ""
  for (s = 0; s < stages; ++s) config = config (s ? "-" : "") replicas[s]
  # Of the worker that differs most.
  for (i = 0; ("progress.stages." i ".memory_bytes") in value; ++i) {
    stage = value["progress.stages." i ".stage"]
    measured = value["progress.stages." i ".memory_bytes"]
    expected = 0
    for (s = 0; s < stages; ++s)
      if (s == stage || (placed && device_of[s] == device_of[stage])) expected += predicted[s]
    if (measured <= 0) continue
    difference = 100 * (expected / measured - 1)
    if (i == 0 || difference * difference > worst * worst) {
      worst = difference
      worst_expected = expected
      worst_measured = measured
    }
  }
  step = value["progress.predicted_step_s"]
  real = value["progress.measured_step_s"]
  off = "-"
  if (real > 0) off = sprintf("%+.1f %%", 100 * (step / real - 1))
  printf("| %s | %s | %s | %s | %s | %s | %s | %s | %+.1f %% |\n", network, workers, config, seconds(step), seconds(real),
    off, megabytes(worst_expected), megabytes(worst_measured), worst)
}

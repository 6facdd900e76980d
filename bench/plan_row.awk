# A table row from a job's json_paths: | name | workers of each stage | predicted | measured | samples/s |.
BEGIN { FS = "\t" }
{ value[$1] = $2 }
$1 ~ /^plan\.stages\.[0-9]+\.workers\./ {
  split($1, part, ".")
  list[part[3]] = list[part[3]] (list[part[3]] ? "+" : "") $2
  if (part[3] + 1 > stages) stages = part[3] + 1
}
END {
  for (s = 0; s < stages; ++s) plan = plan (s ? ", " : "") list[s]
  step = value["progress.measured_step_s"]
  rate = 0
  if (step > 0) rate = value["spec.batch_size"] / step
  printf("| %s | %s | %.1f ms | %.1f ms | %.1f |\n", name, plan, 1000 * value["progress.predicted_step_s"], 1000 * step,
    rate)
}

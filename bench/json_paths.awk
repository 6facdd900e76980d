# Indented JSON, as `pipedream ... -o json` prints it, to lines "path<TAB>value": plan.stages.0.memory.weights.
function path(name,   i, text) {
  text = ""
  for (i = 1; i <= depth; ++i) if (names[i] != "") text = text names[i] "."
  return text name
}
{
  line = $0
  sub(/^[ \t]+/, "", line)
  sub(/,$/, "", line)
  name = ""
  if (match(line, /^"[^"]*": /)) {
    name = substr(line, 2, RLENGTH - 4)
    line = substr(line, RLENGTH + 1)
  } else if (depth > 0 && is_list[depth] && line !~ /^[]}]/) {
    name = count[depth]++ ""
  }
  if (line == "{" || line == "[") {
    ++depth
    names[depth] = name
    is_list[depth] = line == "["
    count[depth] = 0
  } else if (line == "}" || line == "]") {
    --depth
  } else if (line != "{}" && line != "[]") {
    gsub(/^"|"$/, "", line)
    print path(name) "\t" line
  }
}

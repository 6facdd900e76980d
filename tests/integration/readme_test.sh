#!/usr/bin/env bash
# readme_test.sh FILE.md BIN_DIR: runs, in a temporary folder and in order, the ```sh blocks of FILE.md that
# follow a line "<!-- run -->", with BIN_DIR in front of PATH. Fails with the first command that fails,
# and if there is nothing to run.
set -euo pipefail

file=$(realpath "$1")
bin=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

awk '
  /^<!-- run -->$/ { marked = 1; next }
  marked && /^```sh$/ { inside = 1; marked = 0; next }
  inside && /^```$/ { inside = 0; print ""; next }
  inside { print; next }
  /[^[:space:]]/ { marked = 0 }
' "$file" >"$folder/commands.sh"
if ! grep -q '[^[:space:]]' "$folder/commands.sh"; then
  echo "$file: no \`\`\`sh block follows a line \"<!-- run -->\"" >&2
  exit 1
fi

mkdir "$folder/work"
cd "$folder/work"
export PATH=$bin:$PATH PIPEDREAM_CONFIG=$folder/no-config.yaml
unset PIPEDREAM_SERVER
bash -euo pipefail -x "$folder/commands.sh"

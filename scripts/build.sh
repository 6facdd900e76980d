#!/usr/bin/env bash
# scripts/build.sh [PRESET] [TARGET...]: configures and builds; quiet unless something is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
log=build/$preset-configure.log
mkdir -p build
cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" ${1:+--target "$@"}

#!/usr/bin/env bash
# scripts/test.sh [PRESET] [CTEST OPTIONS...]: sets up, builds and runs the tests.
# Presets: release (default), dev, asan, tsan. Example: scripts/test.sh release -L unit
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
scripts/setup.sh
scripts/build.sh "$preset"
# Fewer OpenMP threads than cores: several tests run at once.
export OMP_NUM_THREADS=1
tsan_options="ignore_noninstrumented_modules=1 suppressions='$PWD/tests/tsan.supp'"
export TSAN_OPTIONS="$tsan_options ${TSAN_OPTIONS:-}"
ctest --preset "$preset" -j 2 --timeout 300 "$@"

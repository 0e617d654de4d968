#!/usr/bin/env bash
# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
#
# All that needs a GPU, in one call: tests, compute-sanitizer on some of them, the benchmark. Usage: benchmarks/gpu_check.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?a folder for the results}
mkdir -p "$out"
export PYTHONPATH=${PYTHONPATH:-$PWD}
tests=(python3 -m pytest -q -m gpu -p no:cacheprovider -p no:benchmark)
"${tests[@]}" -n 8 --ignore tests/gpu/test_no_memory.py --ignore tests/gpu/test_mps.py tests/gpu
"${tests[@]}" tests/gpu/test_no_memory.py tests/gpu/test_mps.py # alone: all memory, and a service of their own
for tool in memcheck racecheck initcheck; do
  case $tool in
    # It does not see what bulk copies write, so what goes to the host is not checked.
    initcheck) tool_options=(--check-api-memory-access no) options=(--uploaded) ;;
    *) tool_options=() options=() ;;
  esac
  compute-sanitizer --tool "$tool" "${tool_options[@]}" --error-exitcode 9 --target-processes all \
    --kernel-regex kernel_substring=h5l_ python3 benchmarks/gpu_sanitize.py "${options[@]}" > "$out/$tool.txt" 2>&1 || { tail -30 "$out/$tool.txt"; exit 1; }
  tail -2 "$out/$tool.txt"
done
python3 benchmarks/gpu.py --commit "$(git rev-parse --short HEAD 2> /dev/null || echo unknown)" --json "$out/gpu.json"

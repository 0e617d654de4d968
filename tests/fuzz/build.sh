#!/usr/bin/env bash
# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
#
# Builds the libFuzzer targets, with their dictionary and seeds, as OSS-Fuzz has it; .ci/run does it in the same way.
#   CXX, CXXFLAGS        compiler (default: clang++), and its flags with the instrumentation
#   LIB_FUZZING_ENGINE   what the targets are linked with (default: -fsanitize=fuzzer)
#   OUT                  where the targets go (default: build/fuzz)
#   WORK                 folder of the build (default: build/fuzz-work)
# Arguments are CMake's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=${OUT:-build/fuzz}
work=${WORK:-build/fuzz-work}
flags=${CXXFLAGS:--O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all}
targets=(decode_frame round_trip call_filter)

mkdir -p "$out"
# No build type: the flags say how much is optimised.
cmake -S native -B "$work" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER="${CXX:-clang++}" -DCMAKE_CXX_FLAGS="$flags" \
  -DH5L_BUILD_FUZZERS=ON -DH5L_FUZZING_ENGINE="${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}" -DH5L_CUDA=off "$@"
cmake --build "$work" -j "$(nproc)" --target "${targets[@]}"

cp tests/fuzz/h5lossy.dict "$out"
for target in "${targets[@]}"; do
  cp "$work/fuzz/$target" "$out"
  cp tests/fuzz/target.options "$out/$target.options"
  seeds=(tests/fuzz/corpus/"$target"/*)
  if [[ $target == decode_frame ]]; then
    seeds+=(tests/golden/v1/*.frame)
  fi
  rm -f "$out/${target}_seed_corpus.zip"
  python3 -m zipfile -c "$out/${target}_seed_corpus.zip" "${seeds[@]}"
done

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The codecs and backends of this build, and the backend used on this machine.
#pragma once

#include <cstdint>
#include <span>

#include "codecs/checksum.h"
#include "codecs/codec.h"
#include "codecs/range.h"
#include "frame/message.h"
#include "runtime/chunk_counts.h"

namespace h5lossy {

struct CodecEntry {
  std::uint32_t number;
  const char* name;
  const Codec* codec;
};

struct Backend {
  const char* name;
  bool (*runs_here)();
  std::span<const CodecEntry> codecs;
  const ChecksumFunction& checksum;
  const RangeFunctions& ranges;
};

// All backends, best first.
std::span<const Backend> backends();

// The backend that this process uses: the one named by H5LOSSY_BACKEND, or the best that runs here and passes its self
// test. Chosen once per process.
[[nodiscard]] h5l_status choose_backend(const Backend*& backend, const Message& why);

// The checksum of that backend. Falls back to scalar if no backend is usable: a checksum is not affected by
// floating-point errors.
ChecksumFunction best_checksum();

// The same for ranges of values.
const RangeFunctions& best_ranges();

// Null if this build does not have the codec.
inline const CodecEntry* find_codec(std::span<const CodecEntry> codecs, std::uint32_t codec) {
  for (const CodecEntry& entry : codecs) {
    if (entry.number == codec) return &entry;
  }
  return nullptr;
}

// The codec that encodes losslessly when this codec (or auto) is requested: itself, or the first one that can.
const CodecEntry& lossless_codec(std::span<const CodecEntry> codecs, std::uint32_t codec);

// The codec that encodes integers when this codec is requested, or auto: itself, or the first one that can.
const CodecEntry& integer_codec(std::span<const CodecEntry> codecs, std::uint32_t codec);

// The codecs of the scalar backend. Except for the tile functions, codecs are the same in all backends.
std::span<const CodecEntry> all_codecs();
inline const CodecEntry* codec_entry(std::uint32_t codec) { return find_codec(all_codecs(), codec); }

// Whether a GPU can encode or decode chunks of a codec, or of auto, requested with this mode, for values of this class
// and a bound of this kind.
bool has_kernels(Direction direction, std::uint32_t codec, std::uint32_t mode, std::uint32_t value_class,
                 std::uint32_t bound_kind);

// The codec that auto tries only for size (docs/format/auto.md).
const CodecEntry& size_codec(std::span<const CodecEntry> codecs);

// The name in codecs.def; null if this build does not have the codec.
const char* codec_name(std::uint32_t codec);

}  // namespace h5lossy

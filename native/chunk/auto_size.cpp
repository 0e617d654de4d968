// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/auto_size.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "chunk/auto.h"
#include "chunk/tile_encoder.h"
#include "chunk/tile_runs.h"
#include "codecs/bounds.h"
#include "frame/swap.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Measures a chunk's frame, and stops as soon as it is no smaller than `least`. False if out of memory.
bool measure_frame(const h5l_params& params, const Quantizer& quantizer, const Choice& choice, Bytes raw,
                   std::size_t least, std::uint32_t threads, std::size_t& bytes) {
  const Geometry& geometry = choice.geometry;
  std::vector<TileEncoder> encoders;
  encoders.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    if (!encoders.emplace_back(params, quantizer, choice).ok()) return false;
  }
  std::atomic<std::size_t> sum =
      choice.header_bytes(params.value_class) + std::size_t{kTileEntryBytes} * geometry.tiles();
  for_runs(0, geometry.tiles(), geometry.max_tile_bytes(), threads,
           [&](std::uint32_t first, std::uint32_t last, std::uint32_t worker) {
             for (std::uint32_t i = first; i < last && sum.load(std::memory_order_relaxed) < least; ++i) {
               sum.fetch_add(encoders[worker].encode(raw, i).size(), std::memory_order_relaxed);
             }
           });
  bytes = sum.load(std::memory_order_relaxed);
  return true;
}

template <class T>
bool has_fine_points(const Quantizer& quantizer, bool big_endian, Bytes raw) {
  using Word = scalar::Word<T>;
  const T fine = static_cast<T>(quantizer.step) / kFineUnit,
          inverse = static_cast<T>(quantizer.inverse_step) * kFineUnit;
  const auto fill = static_cast<Word>(quantizer.fill_bits);
  std::uint32_t found = 0;
  constexpr std::size_t batch = 1024;
  for (std::size_t begin = 0; begin < raw.size() && found == 0; begin += batch * sizeof(T)) {
    const std::size_t bytes = std::min(batch * sizeof(T), raw.size() - begin);
    Word words[batch];
    std::memcpy(words, raw.data() + begin, bytes);
    if (big_endian) copy_swapped(raw.data() + begin, reinterpret_cast<std::uint8_t*>(words), bytes, sizeof(T));
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
      const T x = std::bit_cast<T>(words[i]), t = x * inverse;
      const bool is_near = std::abs(t) < static_cast<T>(kMostFine<T>) + T{0.5};  // false for NaN
      const int number = static_cast<int>(is_near ? t + std::copysign(T{0.5}, t) : T{0});
      const bool is_fill = quantizer.has_fill && words[i] == fill;
      found += number % kFineUnit != 0 && is_fine_number<T>(number) && static_cast<T>(number) * fine == x && !is_fill;
    }
  }
  return found != 0;
}

}  // namespace

Quantizer quantizer_of_others(const Quantizer& quantizer) {
  Quantizer others = quantizer;
  others.bound = quantizer.step / 2;
  return others;
}

h5l_status find_smaller(const h5l_params& params, const Quantizer& quantizer, Bytes raw, std::size_t least,
                        Choice& choice, const Message& why, std::uint32_t threads) try {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  const Chunk chunk = read_chunk(params, quantizer, raw.size() / params.value_bytes, raw.data());
  const bool is_done = for_each_candidate(backend->codecs, chunk, [&](const Choice& candidate) {
    std::size_t bytes = 0;
    if (!measure_frame(params, quantizer, candidate, raw, least, threads, bytes)) return false;
    if (bytes < least) {
      least = bytes;
      choice = candidate;
    }
    return true;
  });
  return is_done ? H5L_OK : why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
} catch (const std::bad_alloc&) {
  return why.fail(H5L_OUT_OF_MEMORY, "out of memory for several threads");
}

bool has_fine_points(const h5l_params& params, const Quantizer& quantizer, Bytes raw) {
  if (quantizer.kind == BoundKind::pointwise_relative) return false;  // all codecs have the same bins
  const bool is_swapped = params.big_endian != 0;
  return params.value_bytes == 4 ? has_fine_points<float>(quantizer, is_swapped, raw)
                                 : has_fine_points<double>(quantizer, is_swapped, raw);
}

}  // namespace h5lossy

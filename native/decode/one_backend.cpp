// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of the runtime that decoding needs, for a library without threads: the scalar backend, one thread, and bins
// that are made anew for each call.

#include <span>

#include "chunk/word_tables.h"
#include "codecs/checksum.h"
#include "codecs/range.h"
#include "runtime/pool.h"
#include "runtime/registry.h"

namespace h5lossy {

namespace scalar {
#include "runtime/of_backend.def"
}  // namespace scalar

namespace {

constexpr RangeFunctions kNoRanges = {};  // for encoders

constexpr Backend kScalar = {"scalar", [] { return true; }, scalar::kCodecs, scalar::checksum_function, kNoRanges};

}  // namespace

std::span<const CodecEntry> all_codecs() { return scalar::kCodecs; }

h5l_status choose_backend(const Backend*& backend, const Message&) {
  backend = &kScalar;
  return H5L_OK;
}

ChecksumFunction best_checksum() { return scalar::checksum_function; }

void run_batch(std::size_t count, std::uint32_t, BatchItem item, const void* context) noexcept {
  for (std::size_t i = 0; i < count; ++i) item(context, i, 0);
}

const MadeBins* bins_of(const BinRule& rule, KeptBins& kept) { return make_bins(rule, kept) ? &kept : nullptr; }

}  // namespace h5lossy

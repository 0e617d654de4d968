// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/registry.h"

#include "frame/frame.h"
#include "runtime/backend_choice.h"
#include "runtime/self_test.h"

namespace h5lossy {

namespace scalar {
#include "runtime/of_backend.def"
}  // namespace scalar
#ifdef H5L_HAS_AVX2
namespace avx2 {
#include "runtime/of_backend.def"
}  // namespace avx2
#endif
#ifdef H5L_HAS_NEON
namespace neon {
#include "runtime/of_backend.def"
}  // namespace neon
#endif
#ifdef H5L_HAS_AVX512
namespace avx512 {
#include "runtime/of_backend.def"
}  // namespace avx512
#endif

namespace {

constexpr Backend kBackends[] = {
#define H5L_BACKEND(name, runs_here) {#name, runs_here, name::kCodecs, name::checksum_function, name::range_functions},
#include "runtime/backends.def"
};

struct BackendChoice {
  const Backend* backend = nullptr;
  h5l_status status = H5L_OK;
  h5l_message message = {};
};

BackendChoice make_choice() {
  BackendChoice choice;
  choice.status = choose_among(kBackends, self_test, choice.backend, Message(&choice.message));
  return choice;
}

}  // namespace

const CodecEntry& lossless_codec(std::span<const CodecEntry> codecs, std::uint32_t codec) {
  const CodecEntry* entry = find_codec(codecs, codec);
  if (entry == nullptr || !entry->codec->has_lossless) entry = codecs.data();
  while (!entry->codec->has_lossless) ++entry;  // at least one codec is lossless
  return *entry;
}

const CodecEntry& integer_codec(std::span<const CodecEntry> codecs, std::uint32_t codec) {
  const CodecEntry* entry = find_codec(codecs, codec);
  if (entry == nullptr || entry->codec->for_integers == nullptr) entry = codecs.data();
  while (entry->codec->for_integers == nullptr) ++entry;  // at least one codec takes integers
  return *entry;
}

std::span<const CodecEntry> all_codecs() { return scalar::kCodecs; }

std::span<const Backend> backends() { return kBackends; }

h5l_status choose_backend(const Backend*& backend, const Message& why) {
  static const BackendChoice choice = make_choice();
  backend = choice.backend;
  return choice.status == H5L_OK ? H5L_OK : why.fail(choice.status, "%s", choice.message.text);
}

ChecksumFunction best_checksum() {
  const Backend* backend = nullptr;
  const bool has_backend = choose_backend(backend, Message(nullptr)) == H5L_OK;
  return has_backend ? backend->checksum : scalar::checksum_function;
}

const RangeFunctions& best_ranges() {
  const Backend* backend = nullptr;
  const bool has_backend = choose_backend(backend, Message(nullptr)) == H5L_OK;
  return has_backend ? backend->ranges : scalar::range_functions;
}

bool has_kernels(Direction direction, std::uint32_t codec, std::uint32_t mode, std::uint32_t value_class,
                 std::uint32_t bound_kind) {
  const bool encodes = direction == Direction::encode;
  if (encodes && codec == H5L_CODEC_AUTO && mode == H5L_AUTO_SIZE) return false;  // the GPU only has auto for speed
  if (has_floats(value_class)) return true;
  const CodecEntry* const entry = codec_entry(codec);
  // Bins of varying width are tables, which kernels do not support.
  const bool has_lattice = bound_kind == H5L_BOUND_LOSSLESS || (!is_half(value_class) && bound_kind != H5L_BOUND_NOISE);
  if (entry == nullptr && !encodes) return true;  // stored
  return has_lattice && (entry == nullptr || entry->codec->for_integers != nullptr);
}

const CodecEntry& size_codec(std::span<const CodecEntry> codecs) {
  const CodecEntry* entry = codecs.data();
  while (entry->codec->auto_mode_count != 0) ++entry;  // there is one
  return *entry;
}

const char* codec_name(std::uint32_t codec) {
  const CodecEntry* const entry = codec_entry(codec);
  return entry == nullptr ? nullptr : entry->name;
}

}  // namespace h5lossy

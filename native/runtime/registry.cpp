// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/registry.h"

#include "frame/frame.h"
#include "runtime/backend_choice.h"
#include "runtime/self_test.h"

namespace h5lossy {

#define H5L_CODEC(number, name) \
  namespace name {              \
  extern const Codec codec;     \
  }
namespace scalar {
extern const ChecksumFunction checksum_function;
extern const RangeFunctions range_functions;
#include "runtime/codecs.def"
}  // namespace scalar
#ifdef H5L_HAS_AVX2
namespace avx2 {
extern const ChecksumFunction checksum_function;
extern const RangeFunctions range_functions;
#include "runtime/codecs.def"
}  // namespace avx2
#endif
#ifdef H5L_HAS_NEON
namespace neon {
extern const ChecksumFunction checksum_function;
extern const RangeFunctions range_functions;
#include "runtime/codecs.def"
}  // namespace neon
#endif
#ifdef H5L_HAS_AVX512
namespace avx512 {
extern const ChecksumFunction checksum_function;
extern const RangeFunctions range_functions;
#include "runtime/codecs.def"
}  // namespace avx512
#endif
#undef H5L_CODEC

namespace {

constexpr CodecEntry kScalarCodecs[] = {
#define H5L_CODEC(number, name) {number, #name, &scalar::name::codec},
#include "runtime/codecs.def"
#undef H5L_CODEC
};

#ifdef H5L_HAS_AVX2
constexpr CodecEntry kAvx2Codecs[] = {
#define H5L_CODEC(number, name) {number, #name, &avx2::name::codec},
#include "runtime/codecs.def"
#undef H5L_CODEC
};
#endif
#ifdef H5L_HAS_NEON
constexpr CodecEntry kNeonCodecs[] = {
#define H5L_CODEC(number, name) {number, #name, &neon::name::codec},
#include "runtime/codecs.def"
#undef H5L_CODEC
};
#endif
#ifdef H5L_HAS_AVX512
constexpr CodecEntry kAvx512Codecs[] = {
#define H5L_CODEC(number, name) {number, #name, &avx512::name::codec},
#include "runtime/codecs.def"
#undef H5L_CODEC
};
#endif

constexpr Backend kBackends[] = {
#ifdef H5L_HAS_AVX512
    {"avx512", has_avx512, kAvx512Codecs, avx512::checksum_function, avx512::range_functions},
#endif
#ifdef H5L_HAS_AVX2
    {"avx2", has_avx2, kAvx2Codecs, avx2::checksum_function, avx2::range_functions},
#endif
#ifdef H5L_HAS_NEON
    {"neon", [] { return true; }, kNeonCodecs, neon::checksum_function,
     neon::range_functions},  // every AArch64 CPU has it
#endif
    {"scalar", [] { return true; }, kScalarCodecs, scalar::checksum_function, scalar::range_functions},
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

std::span<const CodecEntry> all_codecs() { return kScalarCodecs; }

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

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Whatever the caller's floating-point settings (flush-to-zero, denormals-are-zero, rounding, traps), each entry point
// gives the same bytes and leaves the settings as they were, including sticky flags. This also holds for the very first
// call, which tests the arithmetic.

#include <cinttypes>
#include <cstdlib>

#include "check.h"
#include "filter/hdf5_symbols.h"
#include "methods.h"
#include "values.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

extern "C" const void* H5PLget_plugin_info(void);

namespace h5lossy::test {
namespace {

#if defined(__SSE2__)
using Word = std::uint32_t;
constexpr Word kDefault = 0x1F80, kFlush = 0x8040, kSticky = 0x3F;
constexpr Word kSettings[] = {
    kDefault | kFlush | 0x4000 | kSticky,  // first: what the first call meets
    kDefault,
    kDefault | 0x8000,           // flush-to-zero
    kDefault | 0x0040,           // denormals-are-zero
    kDefault | 0x2000,           // down
    kDefault | 0x4000,           // up
    kDefault | 0x6000,           // toward zero
    kDefault | kFlush | 0x2000,  //
    0,                           // every exception traps
    kFlush | 0x6000 | kSticky,   //
    kDefault | kSticky,
};
Word get() { return _mm_getcsr(); }
void set(Word word) { _mm_setcsr(word); }
#else
using Word = std::uint64_t;
constexpr Word kDefault = 0, kFlush = 1u << 24, kDefaultNan = 1u << 25;
constexpr Word kSettings[] = {
    kFlush | kDefaultNan | 1u << 22,  // first: what the first call meets
    kDefault,
    kFlush,
    kDefaultNan,
    1u << 22,  // up
    2u << 22,  // down
    3u << 22,  // toward zero
    kFlush | kDefaultNan | 2u << 22,
};
Word get() {
  Word word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#endif

// Runs `call` under the settings `word` and checks that it leaves them alone.
template <class Call>
void under(Word word, const char* name, Call call) {
  set(word);
  call();
  const Word after = get();
  set(kDefault);
  CHECK(after == word, "%s: settings were 0x%" PRIx64 ", are 0x%" PRIx64, name, std::uint64_t{word},
        std::uint64_t{after});
}

// The results of all entry points for one chunk.
struct Results {
  Bytes frame;
  Bytes decoded;
  Bytes part;
  Bytes filtered;
  Bytes unfiltered;
  h5l_frame_info info = {};
  h5l_range range = {};
  double absolute_bound = 0;

  friend bool operator==(const Results& a, const Results& b) {
    return a.frame == b.frame && a.decoded == b.decoded && a.part == b.part && a.filtered == b.filtered &&
           a.unfiltered == b.unfiltered && std::memcmp(&a.info, &b.info, sizeof a.info) == 0 &&
           std::memcmp(&a.range, &b.range, sizeof a.range) == 0 && a.absolute_bound == b.absolute_bound;
  }
};

Bytes run_filter(Word word, unsigned flags, std::span<const std::uint32_t> cd_values, const Bytes& in) {
  const auto& filter = *static_cast<const hdf5::FilterClass*>(H5PLget_plugin_info());
  void* buffer = std::malloc(in.size());
  CHECK(buffer != nullptr, "no memory for %zu bytes", in.size());
  std::memcpy(buffer, in.data(), in.size());
  std::size_t capacity = in.size(), size = 0;
  under(word, "filter",
        [&] { size = filter.filter(flags, cd_values.size(), cd_values.data(), in.size(), &capacity, &buffer); });
  CHECK(size != 0, "filter failed, flags 0x%x", flags);
  const auto* const bytes = static_cast<const std::uint8_t*>(buffer);
  Bytes out(bytes, bytes + size);
  std::free(buffer);
  return out;
}

Results run(Word word, const h5l_params& params, const Bytes& raw) {
  Results results;
  h5l_status status = H5L_INTERNAL;
  std::size_t frame_bytes = 0;
  results.frame.resize(raw.size() + 40);
  under(word, "h5l_encode", [&] {
    status =
        h5l_encode(&params, raw.data(), raw.size(), results.frame.data(), results.frame.size(), &frame_bytes, nullptr);
  });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));
  results.frame.resize(frame_bytes);

  under(word, "h5l_inspect", [&] { status = h5l_inspect(results.frame.data(), frame_bytes, &results.info, nullptr); });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));

  results.decoded.resize(raw.size());
  under(word, "h5l_decode",
        [&] { status = h5l_decode(results.frame.data(), frame_bytes, results.decoded.data(), raw.size(), nullptr); });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));

  const std::size_t count = raw.size() / params.value_bytes / 2;
  results.part.resize(count * params.value_bytes);
  under(word, "h5l_decode_range", [&] {
    status = h5l_decode_range(results.frame.data(), frame_bytes, 7, count, results.part.data(), results.part.size(),
                              nullptr);
  });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));

  under(word, "h5l_value_range",
        [&] { status = h5l_value_range(&params, raw.data(), raw.size(), 1, &results.range, nullptr); });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));
  under(word, "h5l_absolute_bound",
        [&] { results.absolute_bound = h5l_absolute_bound(1e-3, results.range.min, results.range.max); });

  std::uint32_t words[H5L_MAX_CD_VALUES];
  std::size_t words_count = 0;
  under(word, "h5l_pack_cd_values", [&] { status = h5l_pack_cd_values(&params, words, &words_count, nullptr); });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));
  h5l_params unpacked;
  under(word, "h5l_unpack_cd_values", [&] { status = h5l_unpack_cd_values(words, words_count, &unpacked, nullptr); });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));
  const std::span<const std::uint32_t> cd_values(words, words_count);
  results.filtered = run_filter(word, 0, cd_values, raw);
  results.unfiltered = run_filter(word, hdf5::kFlagReverse, cd_values, results.filtered);
  return results;
}

template <class T>
void check(Random& random, const Method& method, const Setting& setting, std::uint64_t hostile_one_in) {
  Values<T> source(random, setting, hostile_one_in);
  const Bytes raw = to_bytes<T>(source.make(10 * 15 * 20), false);
  h5l_params params = make_params(method, setting.kind, setting.bound, sizeof(T));
  set_shape(params, {10, 15, 20});
  const Results expected = run(kSettings[0], params, raw);
  for (const Word word : kSettings) {
    CHECK(run(word, params, raw) == expected, "settings 0x%" PRIx64 ", %s, float%zu, kind %u, bound %.17g",
          std::uint64_t{word}, method.name.c_str(), 8 * sizeof(T), setting.kind, setting.bound);
  }
}

template <class T>
void check_all(Random& random, const Method& method) {
  static std::size_t turn = 0;  // goes on from method to method, so that few cases are others for each
  for (const Setting& setting : settings<T>()) {
    for (const std::uint64_t hostile_one_in : {0u, 100u, 4u}) {
      if (turn++ % kCaseStep == 0) check<T>(random, method, setting, hostile_one_in);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  h5l_status status = H5L_INTERNAL;
  under(kSettings[0], "h5l_self_test", [&] { status = h5l_self_test(nullptr); });
  CHECK(status == H5L_OK, "%s", h5l_status_name(status));
  Random random(9);
  for (const Method& method : methods_and_auto()) {
    check_all<float>(random, method);
    check_all<double>(random, method);
  }
}

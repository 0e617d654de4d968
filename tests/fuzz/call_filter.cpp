// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// libFuzzer: the filter as HDF5 calls it, with any flags, cd_values and bytes, in both directions. What it returns is
// in a buffer that holds so much; where it fails, the caller's buffer is as it was. What was encoded is decoded again.
// Chunks of another size than the cd_values say are refused, and nothing else is.
//
// An input is: switches, number of cd_values (a byte each), the cd_values (4 bytes each), and a chunk or a frame.
// Switches: bit 0 decode, 1 the filter is optional, 2 the frame's checksums are set right, 3 the cd_values get the
// local part of a chunk of float32 with the input's size.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "check.h"
#include "filter/cd_values.h"
#include "filter/hdf5_symbols.h"
#include "frames.h"
#include "seal.h"

extern "C" {

const void* H5PLget_plugin_info(void);

// The filter looks for its caller's functions. This program passes for HDF5 2.3, which compares sizes by itself and is
// asked nothing: for others that cannot be asked, each chunk takes 4 GiB of address space.
extern const char H5_lib_vers_info_g[];
const char H5_lib_vers_info_g[] = "HDF5 library version: 2.3.0";
int H5Epush2(std::int64_t, const char*, const char*, unsigned, std::int64_t, std::int64_t, std::int64_t, const char*,
             ...) {
  return 0;
}
std::int64_t H5E_ERR_CLS_g = 0, H5E_PLINE_g = 0, H5E_CANTINIT_g = 0;

#define H5L_IS_NOT_CALLED(name) \
  void name() { std::abort(); }
H5L_IS_NOT_CALLED(H5Dget_create_plist)
H5L_IS_NOT_CALLED(H5Dget_type)
H5L_IS_NOT_CALLED(H5Fget_obj_ids)
H5L_IS_NOT_CALLED(H5Pclose)
H5L_IS_NOT_CALLED(H5Pfill_value_defined)
H5L_IS_NOT_CALLED(H5Pget_chunk)
H5L_IS_NOT_CALLED(H5Pget_fill_value)
H5L_IS_NOT_CALLED(H5Pget_filter2)
H5L_IS_NOT_CALLED(H5Pget_layout)
H5L_IS_NOT_CALLED(H5Pget_nfilters)
H5L_IS_NOT_CALLED(H5Pmodify_filter)
H5L_IS_NOT_CALLED(H5Sget_simple_extent_dims)
H5L_IS_NOT_CALLED(H5Sget_simple_extent_ndims)
H5L_IS_NOT_CALLED(H5Tclose)
H5L_IS_NOT_CALLED(H5Tget_class)
H5L_IS_NOT_CALLED(H5Tget_ebias)
H5L_IS_NOT_CALLED(H5Tget_fields)
H5L_IS_NOT_CALLED(H5Tget_member_index)
H5L_IS_NOT_CALLED(H5Tget_member_offset)
H5L_IS_NOT_CALLED(H5Tget_member_type)
H5L_IS_NOT_CALLED(H5Tget_nmembers)
H5L_IS_NOT_CALLED(H5Tget_norm)
H5L_IS_NOT_CALLED(H5Tget_order)
H5L_IS_NOT_CALLED(H5Tget_precision)
H5L_IS_NOT_CALLED(H5Tget_sign)
H5L_IS_NOT_CALLED(H5Tget_size)
H5L_IS_NOT_CALLED(H5Tget_super)
H5L_IS_NOT_CALLED(H5Tis_variable_str)
#undef H5L_IS_NOT_CALLED

}  // extern "C"

namespace h5lossy::test {
namespace {

constexpr std::uint8_t kDecode = 1, kOptional = 2, kSeal = 4, kSetLocal = 8;
constexpr std::size_t kFront = 2, kMostWords = 33;

// More would be right, and slow: a frame of empty tiles is small and of any size.
constexpr std::uint64_t kMostBytes = 1 << 22;

// HDF5's memory: malloc's, and exactly as large as need be.
class Memory {
 public:
  explicit Memory(std::span<const std::uint8_t> bytes)
      : data(std::malloc(bytes.size())), capacity(bytes.size()), size(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(data); }

  // Calls the filter; returns whether it did anything.
  bool filter(unsigned flags, std::span<const unsigned> words) {
    const auto* const filter_class = static_cast<const hdf5::FilterClass*>(H5PLget_plugin_info());
    void* const before = data;
    const std::size_t capacity_before = capacity;
    const Bytes bytes(span().begin(), span().end());
    const std::size_t written = filter_class->filter(flags, words.size(), words.data(), size, &capacity, &data);
    if (written == 0) {
      CHECK(data == before && capacity == capacity_before, "a failure touched HDF5's buffer");
      CHECK(std::equal(bytes.begin(), bytes.end(), span().begin()), "a failure changed what was in it");
      return false;
    }
    CHECK(data != nullptr && written <= capacity, "%zu bytes in a buffer of %zu", written, capacity);
    size = written;
    // HDF5 copies all of it; the sanitizer sees whether it is there.
    const Bytes copy(span().begin(), span().end());
    return true;
  }

  [[nodiscard]] std::span<std::uint8_t> span() const { return {static_cast<std::uint8_t*>(data), size}; }

  void* data;
  std::size_t capacity, size;
};

void check(std::span<const std::uint8_t> input) {
  if (input.size() < kFront) return;
  const std::uint8_t switches = input[0];
  std::vector<unsigned> words(input[1] % (kMostWords + 1));
  input = input.subspan(kFront);
  if (input.size() <= 4 * words.size()) return;  // HDF5 has no chunks without bytes
  if (!words.empty()) std::memcpy(words.data(), input.data(), 4 * words.size());
  input = input.subspan(4 * words.size());
  const bool is_float32 = (switches & kSetLocal) != 0 && input.size() % 4 == 0 && words.size() >= 16;
  if (is_float32) {
    constexpr unsigned one_dimension_of_float32 = 1 | 4u << 8 | 1u << 24;
    words[5] = one_dimension_of_float32;
    words[6] = static_cast<unsigned>(input.size() / 4);
  }

  const unsigned optional = (switches & kOptional) != 0 ? hdf5::kFlagOptional : 0;
  h5l_params params = {};
  const bool is_told =
      unpack_cd_values(words, params, Message(nullptr)) == H5L_OK && params.value_bytes != 0 && optional == 0;
  const std::uint64_t told_bytes = is_told ? chunk_bytes(params) : 0;

  Memory memory(input);
  if ((switches & kDecode) != 0) {
    if ((switches & kSeal) != 0) seal(memory.span());
    h5l_frame_info info;
    h5l_message message;
    if (h5l_inspect(memory.span().data(), memory.size, &info, &message) == H5L_OK && info.raw_bytes > kMostBytes)
      return;
    const bool is_done = memory.filter(hdf5::kFlagReverse | optional, words);
    // HDF5 reads a whole chunk, however little it is given.
    CHECK(!is_done || !is_told || memory.size == told_bytes, "%zu bytes for a chunk of %llu", memory.size,
          static_cast<unsigned long long>(told_bytes));
    return;
  }
  const bool is_refused = is_told && told_bytes != input.size();
  const bool is_encoded = memory.filter(optional, words);
  CHECK(is_encoded == !is_refused, "%zu bytes for a chunk of %llu were %s", input.size(),
        static_cast<unsigned long long>(told_bytes), is_encoded ? "encoded" : "refused");
  if (!is_encoded) return;
  CHECK(memory.size <= input.size() + 40, "%zu bytes became %zu", input.size(), memory.size);
  CHECK(memory.filter(hdf5::kFlagReverse | optional, words), "what was encoded cannot be decoded");
  CHECK(memory.size == input.size(), "%zu bytes came back as %zu", input.size(), memory.size);
  const bool is_exact = !is_told || params.bound_kind == H5L_BOUND_LOSSLESS;
  CHECK(!is_exact || std::equal(input.begin(), input.end(), memory.span().begin()),
        "bytes that are to be kept have changed");
}

}  // namespace
}  // namespace h5lossy::test

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  h5lossy::hdf5::Functions functions = {};
  CHECK(h5lossy::hdf5::find_functions(reinterpret_cast<void*>(&H5Epush2), functions),
        "this program lacks functions that the filter looks for in HDF5");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h5lossy::test::check({data, size});
  return 0;
}

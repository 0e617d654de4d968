// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin: what HDF5 asks when a dataset is created, and what it calls for each chunk. docs/design/hdf5.md says
// why each answer is what it is.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "dispatch/float_environment.h"
#include "dispatch/params.h"
#include "dispatch/registry.h"
#include "dispatch/swap.h"
#include "dispatch/threads.h"
#include "dispatch/tiles.h"
#include "filter/cd_values.h"
#include "filter/hdf5_symbols.h"
#include "format/frame.h"
#include "h5lossy.h"

namespace h5lossy {
namespace {

using hdf5::hid_t;

// Stands in every file and in HDF5's message where the plugin is missing, so it says what to do.
constexpr char kFilterName[] = "h5lossy error-bounded lossy compression (pip install h5lossy)";

constexpr hdf5::htri_t kYes = 1;
constexpr int kRefused = -1;
constexpr std::size_t kFailed = 0;

// Whether the type is IEEE float32 or float64, and not another float of the same size (bfloat16 in 4 bytes, VAX, …).
h5l_status read_type(const hdf5::Functions& h5, hid_t type, h5l_params& params, const Message& why) {
  const std::size_t size = h5.get_size(type);
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  const int order = h5.get_class(type) == hdf5::kClassFloat ? h5.get_order(type) : kRefused;
  const bool is_f32 = size == 4;
  const std::size_t m = is_f32 ? 23 : 52, e = is_f32 ? 8 : 11;
  const bool ieee = (order == hdf5::kOrderLittle || order == hdf5::kOrderBig) && (is_f32 || size == 8) &&
                    h5.get_precision(type) == 8 * size &&
                    h5.get_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
                    sign == m + e && exponent == m && exponent_bits == e && mantissa == 0 && mantissa_bits == m &&
                    h5.get_exponent_bias(type) == (is_f32 ? 127u : 1023u) && h5.get_norm(type) == hdf5::kNormImplied;
  if (!ieee) {
    return why.fail(H5L_UNSUPPORTED,
                    "only float32 and float64 data can be compressed within an error bound, and this dataset has "
                    "another type; create it without this filter or convert the data");
  }
  params.value_bytes = static_cast<std::uint32_t>(size);
  params.big_endian = order == hdf5::kOrderBig ? 1 : 0;
  return H5L_OK;
}

// The requested cd_values. A filter in front of ours (shuffle, scale-offset, another compressor) would turn numbers
// into something else, and a bound on that means nothing.
h5l_status read_request(const hdf5::Functions& h5, hid_t dcpl, h5l_params& params, const Message& why) {
  unsigned words[H5L_MAX_CD_VALUES] = {};
  std::size_t count = H5L_MAX_CD_VALUES;
  unsigned flags = 0, config = 0;
  char name[64] = "";
  const int first = h5.get_filter(dcpl, 0, &flags, &count, words, sizeof name, name, &config);
  if (first < 0) return why.fail(H5L_INTERNAL, "HDF5 does not tell the dataset's filters");
  if (first != H5L_FILTER_ID) {
    return why.fail(
        H5L_INVALID_ARGUMENT,
        "filter %d (%.40s) stands in front of h5lossy and would change the numbers that the bound is about; put "
        "h5lossy first, or leave the other one out",
        first, name);
  }
  return unpack_cd_values({words, std::min<std::size_t>(count, H5L_MAX_CD_VALUES)}, params, why);
}

// The chunk's extents without those of 1; of too many the leading ones become one.
h5l_status read_shape(const hdf5::Functions& h5, hid_t space, h5l_params& params, const Message& why) {
  constexpr int max_hdf5_rank = 32;
  hdf5::hsize_t extents[max_hdf5_rank];
  const int rank = h5.get_rank(space);
  if (rank < 0 || rank > max_hdf5_rank || h5.get_extents(space, extents, nullptr) < 0) {
    return why.fail(H5L_INTERNAL, "HDF5 does not tell the chunk's shape");
  }
  hdf5::hsize_t bytes = params.value_bytes;
  for (int i = 0; i < rank; ++i) {
    if (extents[i] == 0 || bytes > kMaxRawBytes / extents[i]) {
      return why.fail(
          H5L_UNSUPPORTED,
          "a chunk must be smaller than 4 GiB (at most %zu bytes), and this one is not; choose smaller chunks",
          kMaxRawBytes);
    }
    bytes *= extents[i];
  }
  hdf5::hsize_t* const end = std::remove(extents, extents + rank, hdf5::hsize_t{1});
  hdf5::hsize_t* begin = extents;
  for (; end - begin > H5L_MAX_RANK; ++begin) begin[1] *= begin[0];
  params.rank = static_cast<std::uint32_t>(end - begin);
  std::transform(begin, end, params.shape, [](hdf5::hsize_t extent) { return static_cast<std::uint32_t>(extent); });
  return H5L_OK;
}

h5l_status read_fill_value(const hdf5::Functions& h5, hid_t dcpl, hid_t type, h5l_params& params, const Message& why) {
  params.has_fill = 0;
  params.fill_bits = 0;
  int defined = 0;
  if (h5.fill_value_defined(dcpl, &defined) < 0) return why.fail(H5L_INTERNAL, "HDF5 does not tell the fill value");
  if (defined != hdf5::kFillUserDefined) return H5L_OK;
  std::uint8_t value[8] = {};
  if (h5.get_fill_value(dcpl, type, value) < 0) return why.fail(H5L_INTERNAL, "HDF5 does not tell the fill value");
  std::memcpy(&params.fill_bits, value, params.value_bytes);
  if (params.big_endian != 0) {
    params.fill_bits = params.value_bytes == 4 ? swap_bytes(static_cast<std::uint32_t>(params.fill_bits))
                                               : swap_bytes(static_cast<unsigned long long>(params.fill_bits));
  }
  params.has_fill = fill_needs_care(params.value_bytes, params.fill_bits) ? 1 : 0;
  return H5L_OK;
}

// All that can be refused is refused here, when the dataset is created: a filter that fails on a chunk loses it.
h5l_status read_dataset(const hdf5::Functions& h5, hid_t dcpl, hid_t type, hid_t space, h5l_params& params,
                        const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  if (const h5l_status status = read_request(h5, dcpl, params, why); status != H5L_OK) return status;
  if (const h5l_status status = read_type(h5, type, params, why); status != H5L_OK) return status;
  return read_shape(h5, space, params, why);
}

// Both callbacks: where HDF5 cannot be reached, the user's own cd_values have to do.
int examine(void* return_address, hid_t dcpl, hid_t type, hid_t space, bool store) noexcept {
  if (dcpl < 0 || type < 0 || space < 0) return kRefused;  // a group's heap: nothing for us
  hdf5::Functions h5;
  if (!hdf5::find_functions(return_address, h5)) return store ? 0 : kYes;
  const FloatEnvironment environment;
  h5l_message message;
  h5l_params params = {};
  const Message why(&message);
  h5l_status status = read_dataset(h5, dcpl, type, space, params, why);
  // HDF5 2.0 also asks can_apply before the first write to a dataset that was opened, and its H5Pget_fill_value crashes
  // there.
  if (status == H5L_OK && store) status = read_fill_value(h5, dcpl, type, params, why);
  if (status != H5L_OK) {
    h5.push(message);
    return kRefused;
  }
  if (!store) return kYes;
  unsigned words[H5L_MAX_CD_VALUES];
  const std::size_t count = pack_cd_values(params, words);
  // Mandatory, whatever the caller said (h5py says optional): HDF5 would store chunks of a failing optional filter
  // silently as they are, and a reader could not tell.
  return h5.modify_filter(dcpl, H5L_FILTER_ID, hdf5::kFlagMandatory, count, words) < 0 ? kRefused : 0;
}

// Memory for what goes to HDF5, which owns *buffer and frees it with free(). Null where there is none to be had.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : memory_(size == 0 ? nullptr : std::malloc(size)), size_(size) {}
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return size_; }
  void* release() { return memory_.release(); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t size_;
};

// What set_local stored. Where it has not run, the type is unknown (value_bytes 0). It has not run where the filter is still
// optional: HDF5 does not ask an optional filter about variable-length data, but calls it, with cd_values that may be
// another dataset's.
h5l_params read_stored(std::span<const unsigned> cd_values, unsigned flags) {
  h5l_params params;
  if (unpack_cd_values(cd_values, params, Message(nullptr)) != H5L_OK) {
    params = {};
    params.bound_kind = H5L_BOUND_LOSSLESS;
  }
  if ((flags & hdf5::kFlagOptional) != 0) params.value_bytes = 0;
  params.maybe_padded = 1;
  return params;
}

// Whether a frame is what the dataset's chunks are. Nobody can tell without a type, nor from bytes of unknown type: those
// are also what encode makes of a chunk that the cd_values do not describe.
bool matches(const FrameHeader& header, const h5l_params& params) {
  if (params.value_bytes == 0 || header.value_bytes == 1) return true;
  return header.raw_bytes == chunk_bytes(params) && header.value_bytes == params.value_bytes &&
         header.big_endian == (params.big_endian != 0);
}

// A chunk's frame, and its size; 0 for want of memory. Whatever else keeps the chunk from being encoded, it is stored:
// HDF5 would lose it.
std::size_t encode(h5l_params params, std::span<const std::uint8_t> raw, Buffer& frame) {
  if (chunk_bytes(params) != raw.size()) params.value_bytes = 0;  // cd_values of another dataset
  const std::size_t capacity = h5l_max_encoded_size(raw.size());
  frame = Buffer(capacity);
  if (frame.data() == nullptr) return 0;
  const std::span<std::uint8_t> out(frame.data(), capacity);
  std::size_t written = 0;
  const std::uint32_t threads = filter_threads();
  if (encode_chunk(params, raw, out, written, Message(nullptr), threads) != H5L_OK) {
    store_chunk(params, raw, out, written);
  }
  return written;
}

// A frame's chunk, and its size; 0 where the frame is broken or not of this dataset.
std::size_t decode(const h5l_params& params, std::span<const std::uint8_t> bytes, Buffer& raw) {
  const Message nobody(nullptr);
  Frame frame;
  if (open_frame(bytes, frame, nobody) != H5L_OK || !matches(frame.header, params)) return 0;
  // HDF5 reads a whole chunk, however little a filter returns. So behind a shorter one there are zeros, not the heap.
  const std::size_t size = frame.header.raw_bytes;
  raw = Buffer(std::max<std::size_t>(size, chunk_bytes(params)));
  if (raw.data() == nullptr || decode_chunk(frame, {raw.data(), size}, nobody, filter_threads()) != H5L_OK) return 0;
  std::fill(raw.data() + size, raw.data() + raw.size(), std::uint8_t{0});
  return size;
}

// One chunk. Calls no HDF5 function, and touches *buffer only when all has gone well.
std::size_t run_filter(unsigned flags, std::span<const unsigned> cd_values, std::size_t size, std::size_t* capacity,
                       void** buffer) noexcept {
  const FloatEnvironment environment;
  const std::span<const std::uint8_t> in(static_cast<const std::uint8_t*>(*buffer), size);
  const h5l_params params = read_stored(cd_values, flags);
  Buffer out(0);
  const std::size_t written = (flags & hdf5::kFlagReverse) != 0 ? decode(params, in, out) : encode(params, in, out);
  if (written == 0) return kFailed;
  std::free(*buffer);
  *capacity = out.size();
  *buffer = out.release();
  return written;
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

// The return address must be HDF5's, so these two take it themselves and are never part of another function.
[[gnu::noinline]] static hdf5::htri_t can_apply(hid_t dcpl, hid_t type, hid_t space) {
  return examine(__builtin_return_address(0), dcpl, type, space, false);
}

[[gnu::noinline]] static hdf5::herr_t set_local(hid_t dcpl, hid_t type, hid_t space) {
  return examine(__builtin_return_address(0), dcpl, type, space, true);
}

static std::size_t filter(unsigned flags, std::size_t cd_count, const unsigned* cd_values, std::size_t size,
                          std::size_t* capacity, void** buffer) {
  return run_filter(flags, {cd_values, cd_count}, size, capacity, buffer);
}

static const hdf5::FilterClass kFilterClass = {
    hdf5::kFilterClassVersion, H5L_FILTER_ID, 1, 1, kFilterName, can_apply, set_local, filter,
};

// HDF5 looks for these two in every library of its plugin folders.
[[gnu::visibility("default")]] int H5PLget_plugin_type(void) { return hdf5::kPluginTypeFilter; }

[[gnu::visibility("default")]] const void* H5PLget_plugin_info(void) { return &kFilterClass; }

}  // extern "C"

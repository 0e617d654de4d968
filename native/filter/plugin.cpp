// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin: what HDF5 asks when a dataset is created, and what it calls for each chunk. docs/design/hdf5.md says
// why each answer is what it is.

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "chunk/decode.h"
#include "chunk/encode.h"
#include "chunk/open_frame.h"
#include "chunk/params.h"
#include "chunk/swap.h"
#include "filter/cd_values.h"
#include "filter/hdf5_symbols.h"
#include "filter/open_datasets.h"
#include "frame/frame.h"
#include "h5lossy.h"
#include "runtime/float_environment.h"
#include "runtime/registry.h"
#include "runtime/threads.h"

namespace h5lossy {
namespace {

using hdf5::hid_t;

// Stands in every file and in HDF5's message where the plugin is missing, so it says what to do.
constexpr char kFilterName[] = "h5lossy error-bounded lossy compression (pip install h5lossy)";

constexpr hdf5::htri_t kYes = 1;
constexpr int kRefused = -1;
constexpr std::size_t kFailed = 0;

// Tells the user, once in a process: HDF5 2 drops what a filter puts on its error stack, and a write that succeeds has no
// error at all.
[[gnu::format(printf, 2, 3)]] void say_once(std::atomic_flag& said, const char* format, ...) {
  if (said.test_and_set()) return;
  h5l_message line;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.text, sizeof line.text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "h5lossy: %s (said once)\n", line.text);  // in one piece: others write there, too
}

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

// Filters that treat their input as the dataset's values and reduce its precision, which would destroy a frame. All other
// filters treat it as bytes, and may follow h5lossy.
constexpr int kFiltersForValues[] = {
    5,      // nbit
    6,      // scaleoffset
    32002,  // SCIL
    32013,  // ZFP
    32014,  // fpzip
    32017,  // SZ
    32018,  // FCIDECOMP
    32019,  // JPEG
    32020,  // B3D
    32022,  // BitGroom
    32023,  // Granular BitRound
    32024,  // SZ3
    32028,  // SPERR
    32030,  // FFMPEG
};

h5l_status check_filters_behind(const hdf5::Functions& h5, hid_t dcpl, const Message& why) {
  const int count = h5.get_filter_count(dcpl);
  for (int i = 1; i < count; ++i) {
    std::size_t words = 0;
    unsigned flags = 0, config = 0;
    char name[64] = "";
    const int id = h5.get_filter(dcpl, static_cast<unsigned>(i), &flags, &words, nullptr, sizeof name, name, &config);
    if (std::find(std::begin(kFiltersForValues), std::end(kFiltersForValues), id) != std::end(kFiltersForValues)) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "filter %d (%.40s) behind h5lossy would take its frames for numbers, and they could not be read "
                      "again; leave one of the two out (gzip, shuffle and fletcher32 may stand behind)",
                      id, name);
    }
  }
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
  h5l_message refusal;
  const std::span<const unsigned> given(words, std::min<std::size_t>(count, H5L_MAX_CD_VALUES));
  if (const h5l_status status = unpack_cd_values(given, params, Message(&refusal)); status != H5L_OK) {
    static std::atomic_flag said;
    say_once(said, "%s", refusal.text);  // NCO passes one word on, and netCDF drops HDF5's error stack
    return why.fail(status, "%s", refusal.text);
  }
  return check_filters_behind(h5, dcpl, why);
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

// What HDF5 passes to the filter function.
struct Call {
  void* return_address;
  unsigned flags;
  std::span<const unsigned> cd_values;
};

// One HDF5 library, as it calls the filter.
struct Caller {
  hdf5::Functions h5;
  bool may_be_called = false;  // it runs filters in the thread that called it, which holds its lock
  bool checks_sizes = false;   // it compares the size of a filter's output with that of a chunk
  OpenDatasets datasets;

  explicit Caller(void* return_address) : h5{} {
    unsigned major = 0, minor = 0;
    // H5get_libversion would take the lock.
    if (!hdf5::find_functions(return_address, h5) ||
        std::sscanf(h5.version_text, "HDF5 library version: %u.%u", &major, &minor) != 2) {
      return;
    }
    const std::pair version(major, minor);
    may_be_called = version < std::pair(2u, 3u);
    checks_sizes = version >= std::pair(2u, 2u);
  }

  // There are few, and they are never freed: HDF5 calls filters at exit, too. Null if there is no memory.
  static Caller* at(void* return_address) noexcept {
    try {
      static std::mutex& mutex = *new std::mutex;
      static auto& callers = *new std::map<void*, Caller>;
      const std::lock_guard lock(mutex);
      return &callers.try_emplace(return_address, return_address).first->second;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  // Whether a frame matches the chunk that HDF5 will read, as far as HDF5 says.
  OpenDatasets::Verdict judge(const Call& call, bool describe_chunk, const FrameHeader& header) noexcept {
    try {
      return may_be_called
                 ? datasets.judge(h5, call.cd_values, (call.flags & hdf5::kFlagOptional) != 0, describe_chunk, header)
                 : OpenDatasets::Verdict::kUnknown;
    } catch (const std::bad_alloc&) {
      return OpenDatasets::Verdict::kUnknown;
    }
  }
};

#ifndef H5L_MOST_CHUNK_BYTES  // less with a sanitizer, which marks every byte
#define H5L_MOST_CHUNK_BYTES 0xFFFFFFFFu
#endif

// Memory for what goes to HDF5, which owns *buffer and frees it with free(). Null where there is none to be had.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : memory_(size == 0 ? nullptr : std::malloc(size)), size_(size) {}
  // Zeros, as large as a chunk can be in HDF5 before 2.0. Only the pages that are written to take memory.
  static Buffer for_any_chunk(std::size_t least) {
    Buffer buffer(0);
    buffer.size_ = std::max<std::size_t>(least, H5L_MOST_CHUNK_BYTES);
    buffer.memory_.reset(std::calloc(1, buffer.size_));
    return buffer;
  }
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

// Whether a frame matches the cd_values, if these describe the dataset's chunks.
h5l_status check_frame(const FrameHeader& header, const h5l_params& params, const Message& why) {
  if (params.value_bytes == 0) return H5L_OK;
  const std::uint64_t wanted = chunk_bytes(params);
  if (header.raw_bytes != wanted) {
    return why.fail(H5L_CORRUPT, "the frame holds %u bytes, and a chunk has %llu by the cd_values", header.raw_bytes,
                    static_cast<unsigned long long>(wanted));
  }
  const bool is_typed = header.value_bytes != 1;  // else the encoder was not told
  if (is_typed && (header.value_bytes != params.value_bytes || header.big_endian != (params.big_endian != 0))) {
    return why.fail(H5L_CORRUPT, "the frame's type is not that of the cd_values");
  }
  return H5L_OK;
}

// Encodes a chunk and returns the frame's size, or 0 if the chunk is refused. Values not known to be float32 or float64
// are stored uncompressed: if the filter refused them, HDF5 would lose them.
std::size_t encode(const h5l_params& params, std::span<const std::uint8_t> raw, Buffer& frame, const Message& why) {
  static std::atomic_flag said;
  if (params.value_bytes == 0) {
    say_once(said,
             "the filter was not told the type of a dataset and stores its chunks without compression; HDF5 tells it "
             "for floats, but not through a program with HDF5 linked in statically: use the shared library, or give "
             "all 16 cd_values");
  } else if (chunk_bytes(params) != raw.size()) {
    // It could not be read again.
    why.fail(H5L_INVALID_ARGUMENT, "the cd_values say that a chunk has %llu bytes, and it has %zu",
             static_cast<unsigned long long>(chunk_bytes(params)), raw.size());
    return 0;
  }
  const std::size_t capacity = h5l_max_encoded_size(raw.size());
  frame = Buffer(capacity);
  if (frame.data() == nullptr) {
    why.fail(H5L_OUT_OF_MEMORY, "no memory for a frame of a chunk of %zu bytes", raw.size());
    return 0;
  }
  const std::span<std::uint8_t> out(frame.data(), capacity);
  std::size_t written = 0;
  if (encode_chunk(params, raw, out, written, Message(nullptr), filter_threads()) != H5L_OK) {
    store_chunk(params, raw, out, written);
  }
  return written;
}

// Allocates memory for a frame's chunk, as much as HDF5 will read. Fails if the frame does not belong to the dataset.
h5l_status make_room(const Call& call, const h5l_params& params, const Frame& frame, Buffer& raw, const Message& why) {
  using enum OpenDatasets::Verdict;
  const FrameHeader& header = frame.header;
  Caller* const caller = Caller::at(call.return_address);
  const bool is_described = params.value_bytes != 0;
  const auto verdict = caller != nullptr ? caller->judge(call, is_described, header) : kUnknown;
  if (verdict == kContradicts) {
    return why.fail(H5L_CORRUPT, "the frame holds %u bytes, and the dataset's chunks are of another size or type",
                    header.raw_bytes);
  }
  // A frame of a few bytes may claim 4 GiB. One that the encoder stored, since it was not told the type, has as many.
  if (verdict == kUnknown && !is_described && header.value_bytes != 1) {
    return why.fail(H5L_CORRUPT, "the frame claims %u bytes, and nothing says how many a chunk has", header.raw_bytes);
  }
  const bool is_size_sure = verdict == kFits || (caller != nullptr && caller->checks_sizes);
  if (is_size_sure) {
    raw = Buffer(header.raw_bytes);
  } else {
    // That is slow to give back, so it is not taken for damaged frames.
    if (const h5l_status status = check_sum(frame, why); status != H5L_OK) return status;
    raw = Buffer::for_any_chunk(header.raw_bytes);
  }
  if (raw.data() == nullptr) return why.fail(H5L_OUT_OF_MEMORY, "no memory for a chunk of %u bytes", header.raw_bytes);
  return H5L_OK;
}

// A frame's chunk, and its size; 0 where the frame is broken or not of this dataset.
std::size_t decode(const Call& call, const h5l_params& params, std::span<const std::uint8_t> bytes, Buffer& raw,
                   const Message& why) {
  Frame frame;
  if (open_frame(bytes, frame, why) != H5L_OK || check_frame(frame.header, params, why) != H5L_OK ||
      make_room(call, params, frame, raw, why) != H5L_OK) {
    return 0;
  }
  const std::size_t size = frame.header.raw_bytes;
  return decode_chunk(frame, {raw.data(), size}, why, filter_threads()) == H5L_OK ? size : 0;
}

// HDF5 1.10 to 1.14 show the error stack; for other versions there is one line on standard error.
void tell(const Call& call, const h5l_message& message) noexcept {
  static std::atomic_flag said_of_reading, said_of_writing;
  if (Caller* const caller = Caller::at(call.return_address); caller != nullptr && caller->may_be_called) {
    caller->h5.push(message);
  }
  if ((call.flags & hdf5::kFlagReverse) != 0) {
    say_once(said_of_reading, "a chunk can't be read: %s; in Python, h5lossy.read(dataset) says which one",
             message.text);
  } else {
    say_once(said_of_writing, "a chunk can't be written: %s", message.text);
  }
}

// Runs the filter on one chunk. Changes *buffer only on success.
std::size_t run_filter(const Call& call, std::size_t size, std::size_t* capacity, void** buffer) noexcept {
  const FloatEnvironment environment;
  const std::span<const std::uint8_t> in(static_cast<const std::uint8_t*>(*buffer), size);
  const h5l_params params = read_stored(call.cd_values, call.flags);
  h5l_message message;
  const Message why(&message);
  Buffer out(0);
  const std::size_t written =
      (call.flags & hdf5::kFlagReverse) != 0 ? decode(call, params, in, out, why) : encode(params, in, out, why);
  if (written == 0) {
    tell(call, message);
    return kFailed;
  }
  std::free(*buffer);
  *capacity = out.size();
  *buffer = out.release();
  return written;
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

// The return address must be HDF5's, so these three take it themselves and are never part of another function.
[[gnu::noinline]] static hdf5::htri_t can_apply(hid_t dcpl, hid_t type, hid_t space) {
  return examine(__builtin_return_address(0), dcpl, type, space, false);
}

[[gnu::noinline]] static hdf5::herr_t set_local(hid_t dcpl, hid_t type, hid_t space) {
  return examine(__builtin_return_address(0), dcpl, type, space, true);
}

[[gnu::noinline]] static std::size_t filter(unsigned flags, std::size_t cd_count, const unsigned* cd_values,
                                            std::size_t size, std::size_t* capacity, void** buffer) {
  return run_filter({__builtin_return_address(0), flags, {cd_values, cd_count}}, size, capacity, buffer);
}

static const hdf5::FilterClass kFilterClass = {
    hdf5::kFilterClassVersion, H5L_FILTER_ID, 1, 1, kFilterName, can_apply, set_local, filter,
};

// HDF5 looks for these two in every library of its plugin folders.
[[gnu::visibility("default")]] int H5PLget_plugin_type(void) { return hdf5::kPluginTypeFilter; }

[[gnu::visibility("default")]] const void* H5PLget_plugin_info(void) { return &kFilterClass; }

}  // extern "C"

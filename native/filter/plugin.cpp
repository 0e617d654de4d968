// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin: the callbacks for creating a dataset and for filtering a chunk. docs/design/hdf5.md gives the
// reasons for their results.

#include <atomic>
#include <span>

#include "filter/caller.h"
#include "filter/cd_values.h"
#include "filter/dataset.h"
#include "filter/hdf5_symbols.h"
#include "filter/one_chunk.h"
#include "filter/say_once.h"
#include "frame/header.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "platform/platform.h"
#include "runtime/float_environment.h"

namespace h5lossy {
namespace {

using hdf5::hid_t;

// Stored in every file, and part of HDF5's error message when the plugin is missing, so it says how to install it.
constexpr char kFilterName[] = "h5lossy error-bounded lossy compression (pip install h5lossy)";

constexpr hdf5::htri_t kYes = 1;
constexpr hdf5::htri_t kNotApplicable = 0;
constexpr int kRefused = -1;
constexpr std::size_t kFailed = 0;

// Of a chunk that is no larger than its frame's header. Whether the dataset has many of them, set_local cannot know.
void warn_of_tiny_chunk(const h5l_params& params) noexcept {
  static std::atomic_flag said;
  std::uint64_t bytes = params.value_bytes;
  for (std::uint32_t i = 0; i < params.rank; ++i) bytes *= params.shape[i];
  if (bytes > kHeaderBytes) return;
  say_once(
      said,
      "a dataset has chunks of %u bytes, and each takes a header of %u bytes and an entry in HDF5's index; give it "
      "larger chunks, best of about 1 MiB",
      static_cast<unsigned>(bytes), static_cast<unsigned>(kHeaderBytes));
}

// can_apply and set_local. If HDF5's functions cannot be found, the user's cd_values are kept as they are.
int examine(void* return_address, hid_t dcpl, hid_t type, hid_t space, bool store) noexcept {
  if (dcpl < 0 || type < 0 || space < 0) return kRefused;   // a group's heap, not a dataset
  const Caller* const caller = Caller::at(return_address);  // looking functions up takes longer than all the rest
  if (caller == nullptr || !caller->has_functions) return store ? 0 : kYes;
  const hdf5::Functions& h5 = caller->h5;
  // HDF5 calls the filter all the same, which stores these chunks as they are.
  if (!store && has_variable_length(h5, type)) return kNotApplicable;
  const FloatEnvironment environment;
  h5l_message message;
  h5l_params params = {};
  const Message why(&message);
  h5l_status status = read_dataset(h5, dcpl, type, space, params, why);
  if (status == H5L_OK && store) status = read_fill_value(h5, dcpl, type, params, why);
  if (status != H5L_OK) {
    h5.push(message);
    return kRefused;
  }
  if (!store) return kYes;
  warn_of_tiny_chunk(params);
  unsigned words[H5L_MAX_CD_VALUES];
  const std::size_t count = pack_cd_values(params, words);
  // Always mandatory, even if requested as optional (as h5py does): HDF5 silently stores the unfiltered chunk if an
  // optional filter fails.
  return h5.modify_filter(dcpl, H5L_FILTER_ID, hdf5::kFlagMandatory, count, words) < 0 ? kRefused : 0;
}

// HDF5 1.10 to 1.14 print the error stack; for other versions there is one line on stderr.
void report_error(const Call& call, const h5l_message& message) noexcept {
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
  platform::Allocator allocator;
  if (!platform::find_allocator(call.return_address, allocator)) {
    why.fail(H5L_INTERNAL,
             "the HDF5 library that calls the filter imports no malloc, calloc and free, so chunks cannot be passed to "
             "it; use a library that is linked with a C library's DLL");
    report_error(call, message);
    return kFailed;
  }
  Buffer out(allocator);
  const std::size_t written = (call.flags & hdf5::kFlagReverse) != 0 ? decode_to_buffer(call, params, in, out, why)
                                                                     : encode_to_buffer(params, in, out, why);
  if (written == 0) {
    report_error(call, message);
    return kFailed;
  }
  allocator.release(*buffer);
  // Not what was allocated, which may be 4 GiB: H5Ocopy clears as many bytes of another, smaller buffer.
  *capacity = written;
  *buffer = out.release();
  return written;
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

// The return address must lie in HDF5, so each of these takes it itself and must not be inlined.
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

// HDF5 looks these up in every library of its plugin folders.
[[gnu::visibility("default")]] int H5PLget_plugin_type(void) { return hdf5::kPluginTypeFilter; }

[[gnu::visibility("default")]] const void* H5PLget_plugin_info(void) { return &kFilterClass; }

}  // extern "C"

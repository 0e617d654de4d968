// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin: what HDF5 asks when a dataset is created, and what it calls for each chunk. docs/design/hdf5.md says
// why each answer is what it is.

#include <atomic>
#include <cstdlib>
#include <span>

#include "filter/caller.h"
#include "filter/cd_values.h"
#include "filter/dataset.h"
#include "filter/hdf5_symbols.h"
#include "filter/one_chunk.h"
#include "filter/say_once.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/float_environment.h"

namespace h5lossy {
namespace {

using hdf5::hid_t;

// Stands in every file and in HDF5's message where the plugin is missing, so it says what to do.
constexpr char kFilterName[] = "h5lossy error-bounded lossy compression (pip install h5lossy)";

constexpr hdf5::htri_t kYes = 1;
constexpr int kRefused = -1;
constexpr std::size_t kFailed = 0;

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
  const std::size_t written = (call.flags & hdf5::kFlagReverse) != 0 ? decode_to_buffer(call, params, in, out, why)
                                                                     : encode_to_buffer(params, in, out, why);
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

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What HDF5 will read of a chunk that the filter gives it. A filter is not told, and HDF5 before 2.2 reads a whole chunk
// out of whatever comes back; so the datasets that are open are asked. docs/design/hdf5.md has the story.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "filter/hdf5_symbols.h"
#include "format/frame.h"
#include "h5lossy.h"

namespace h5lossy {

class OpenDatasets {
 public:
  enum class Verdict { kFits, kContradicts, kUnknown };

  // Whether a frame is what the chunks of the dataset with these cd_values and this flag are. Unknown where no open dataset has them:
  // the source of a virtual one is read without being opened. Several may have them; those that describe a chunk have to
  // be right about all of these.
  [[nodiscard]] Verdict judge(const hdf5::Functions& h5, std::span<const unsigned> cd_values, bool is_optional,
                              bool describe_chunk, const FrameHeader& header);

 private:
  // One use of our filter.
  struct Use {
    unsigned words[H5L_MAX_CD_VALUES] = {};
    std::size_t count = 0;
    bool is_optional = false;
    // Whether HDF5 reads the filter's output; else another filter gets it.
    bool is_first = false;
    unsigned long long chunk_bytes = 0;  // 0 where the size in the file is not known
    std::size_t value_bytes = 0;         // 0 for what is no float
    bool big_endian = false;

    [[nodiscard]] bool has(std::span<const unsigned> cd_values, bool optional) const;
    [[nodiscard]] Verdict judge(const FrameHeader& header) const;
  };

  bool update(const hdf5::Functions& h5);
  static std::vector<Use> uses_of(const hdf5::Functions& h5, hdf5::hid_t dataset);

  std::mutex mutex_;
  std::vector<hdf5::hid_t> list_;                           // room for what HDF5 lists
  std::vector<hdf5::hid_t> ids_;                            // as it listed them last
  std::unordered_map<hdf5::hid_t, std::vector<Use>> uses_;  // HDF5 gives no identifier twice
  std::vector<unsigned> words_;                             // the cd_values of the last call, and its flag
  bool is_optional_ = false;
  std::vector<Use> chosen_;  // the uses with these
};

}  // namespace h5lossy

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Finds the chunk size that HDF5 expects from the filter by inspecting the open datasets. HDF5 does not pass it to
// filters, and before 2.2 it reads a whole chunk however small the filter's output is. See docs/design/hdf5.md.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "filter/hdf5_symbols.h"
#include "frame/frame.h"
#include "h5lossy.h"

namespace h5lossy {

class OpenDatasets {
 public:
  enum class Verdict { kFits, kContradicts, kUnknown };

  // Whether a frame matches the chunks of the open datasets with these cd_values and this flag. Unknown if there is no
  // such dataset: HDF5 reads the source of a virtual dataset without listing it as open. If there are several, a frame
  // whose cd_values describe the chunk must match all of them.
  [[nodiscard]] Verdict check(const hdf5::Functions& h5, std::span<const unsigned> cd_values, bool is_optional,
                              bool describe_chunk, const FrameHeader& header);

 private:
  // One use of our filter.
  struct Use {
    unsigned words[H5L_MAX_CD_VALUES] = {};
    std::size_t count = 0;
    bool is_optional = false;
    // Whether HDF5 reads the filter's output; otherwise another filter does.
    bool is_first = false;
    unsigned long long chunk_bytes = 0;  // 0 if the size in the file is unknown
    std::size_t value_bytes = 0;         // 0 if neither a float nor an integer
    std::uint32_t value_class = H5L_CLASS_FLOAT;
    bool big_endian = false;

    [[nodiscard]] bool has(std::span<const unsigned> cd_values, bool optional) const;
    [[nodiscard]] Verdict check(const FrameHeader& header) const;
  };

  bool update(const hdf5::Functions& h5);
  static std::vector<Use> uses_of(const hdf5::Functions& h5, hdf5::hid_t dataset);

  std::mutex mutex_;
  std::vector<hdf5::hid_t> list_;                           // buffer for HDF5's list of open datasets
  std::vector<hdf5::hid_t> ids_;                            // that list at the last call
  std::unordered_map<hdf5::hid_t, std::vector<Use>> uses_;  // HDF5 never reuses an identifier
  std::vector<unsigned> words_;                             // the cd_values of the last call, and its flag
  bool is_optional_ = false;
  std::vector<Use> chosen_;  // the uses with these
};

}  // namespace h5lossy

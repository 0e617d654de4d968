// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "filter/open_datasets.h"

#include <algorithm>
#include <iterator>

#include "filter/cd_values.h"
#include "filter/dataset.h"

namespace h5lossy {

using hdf5::hid_t;

bool OpenDatasets::Use::has(std::span<const unsigned> cd_values, bool optional) const {
  return is_optional == optional && count == cd_values.size() &&
         std::equal(words, words + std::min<std::size_t>(count, H5L_MAX_CD_VALUES), cd_values.begin());
}

OpenDatasets::Verdict OpenDatasets::Use::check(const FrameHeader& header) const {
  if (!is_first) return Verdict::kUnknown;
  const bool same_type = header.value_bytes == value_bytes && header.value_class == value_class;
  if (header.is_typed() && (!same_type || header.big_endian != big_endian)) return Verdict::kContradicts;
  if (chunk_bytes == 0) return Verdict::kUnknown;
  return header.raw_bytes == chunk_bytes ? Verdict::kFits : Verdict::kContradicts;
}

OpenDatasets::Verdict OpenDatasets::check(const hdf5::Functions& h5, std::span<const unsigned> cd_values,
                                          bool is_optional, bool describe_chunk, const FrameHeader& header) {
  const std::lock_guard lock(mutex_);
  const bool is_last =
      is_optional == is_optional_ && std::equal(cd_values.begin(), cd_values.end(), words_.begin(), words_.end());
  if (update(h5) || !is_last) {
    is_optional_ = is_optional;
    words_.assign(cd_values.begin(), cd_values.end());
    chosen_.clear();
    for (const auto& [id, uses] : uses_) {
      std::copy_if(uses.begin(), uses.end(), std::back_inserter(chosen_),
                   [&](const Use& use) { return use.has(cd_values, is_optional); });
    }
  }
  bool fits = false, contradicts = false, is_unknown = false;
  for (const Use& use : chosen_) {
    const Verdict verdict = use.check(header);
    fits = fits || verdict == Verdict::kFits;
    contradicts = contradicts || verdict == Verdict::kContradicts;
    is_unknown = is_unknown || verdict == Verdict::kUnknown;
  }
  if (contradicts && (describe_chunk || !(fits || is_unknown))) return Verdict::kContradicts;
  return fits && !contradicts && !is_unknown ? Verdict::kFits : Verdict::kUnknown;
}

// Queries newly opened datasets and drops closed ones. Returns whether the list of open datasets has changed.
bool OpenDatasets::update(const hdf5::Functions& h5) {
  std::size_t found = 0;
  for (;;) {
    if (list_.empty()) list_.resize(64);
    const std::ptrdiff_t listed =
        h5.get_object_ids(hdf5::kObjectsOfAllFiles, hdf5::kObjectDataset, list_.size(), list_.data());
    found = listed < 0 ? 0 : static_cast<std::size_t>(listed);
    if (found < list_.size()) break;
    list_.resize(2 * list_.size());
  }
  const std::span<const hid_t> now(list_.data(), found);
  if (std::equal(now.begin(), now.end(), ids_.begin(), ids_.end())) return false;
  std::unordered_map<hid_t, std::vector<Use>> uses;
  for (const hid_t id : now) {
    const auto known = uses_.find(id);
    uses.try_emplace(id, known != uses_.end() ? known->second : uses_of(h5, id));
  }
  uses_.swap(uses);
  ids_.assign(now.begin(), now.end());
  return true;
}

std::vector<OpenDatasets::Use> OpenDatasets::uses_of(const hdf5::Functions& h5, hid_t dataset) {
  constexpr int max_hdf5_rank = 32;
  std::vector<Use> uses;
  const hid_t creation = h5.get_creation_list(dataset);
  if (creation < 0) return uses;
  const int filters = h5.get_layout(creation) == hdf5::kLayoutChunked ? h5.get_filter_count(creation) : 0;
  for (int i = 0; i < filters; ++i) {
    Use use;
    use.count = H5L_MAX_CD_VALUES;
    unsigned flags = 0, config = 0;
    const int id =
        h5.get_filter(creation, static_cast<unsigned>(i), &flags, &use.count, use.words, 0, nullptr, &config);
    if (id != H5L_FILTER_ID) continue;
    use.is_optional = (flags & hdf5::kFlagOptional) != 0;
    hdf5::hsize_t extents[max_hdf5_rank];
    const int rank = h5.get_chunk(creation, max_hdf5_rank, extents);
    const hid_t type = h5.get_dataset_type(dataset);
    const int type_class = type >= 0 ? h5.get_class(type) : hdf5::kClassUnknown;
    // When reading, the first filter's output is the chunk.
    use.is_first = i == 0 && type_class != hdf5::kClassUnknown;
    h5l_params params = {};
    bool are_bits = false;
    if (use.is_first && read_type(h5, type, params, are_bits)) {
      use.value_bytes = params.value_bytes;
      use.value_class = params.value_class;
      use.big_endian = params.big_endian != 0;
    }
    // Other types may have another size in the file than in memory.
    if (use.is_first &&
        (use.value_bytes != 0 || type_class == hdf5::kClassFloat || type_class == hdf5::kClassInteger)) {
      use.chunk_bytes = h5.get_size(type);
      for (int axis = 0; axis < rank; ++axis) {
        const bool is_too_large = extents[axis] == 0 || use.chunk_bytes > kMaxRawBytes / extents[axis];
        use.chunk_bytes = is_too_large ? ~0ull / 2 : use.chunk_bytes * extents[axis];
        if (is_too_large) break;  // larger than any frame's chunk
      }
    }
    if (type >= 0) h5.close_type(type);
    uses.push_back(use);
  }
  h5.close_list(creation);
  return uses;
}

}  // namespace h5lossy

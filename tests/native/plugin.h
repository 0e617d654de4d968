// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin, loaded as HDF5 loads it.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "check.h"
#include "filter/hdf5_symbols.h"
#include "values.h"

namespace h5lossy::test {

using Bytes = std::vector<std::uint8_t>;
using Words = std::vector<unsigned>;

// The request in cd_values.
struct Request {
  unsigned codec;
  unsigned mode;
};

class Plugin {
 public:
  explicit Plugin(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr, "%s", dlerror());
    const auto type = reinterpret_cast<int (*)()>(dlsym(library, "H5PLget_plugin_type"));
    const auto info = reinterpret_cast<const void* (*)()>(dlsym(library, "H5PLget_plugin_info"));
    CHECK(type != nullptr && info != nullptr, "HDF5 needs both");
    CHECK(type() == hdf5::kPluginTypeFilter, "type %d", type());
    filter_ = static_cast<const hdf5::FilterClass*>(info());
    const auto pack = reinterpret_cast<decltype(&h5l_pack_cd_values)>(dlsym(library, "h5l_pack_cd_values"));
    CHECK(pack != nullptr, "%s", dlerror());
    h5l_params params = {};
    params.bound_kind = H5L_BOUND_LOSSLESS;
    for (params.codec = 0; params.codec < 256; ++params.codec) {
      for (params.mode = 0; params.mode < 256; ++params.mode) {
        std::uint32_t words[H5L_MAX_CD_VALUES];
        std::size_t count = 0;
        if (pack(&params, words, &count, nullptr) == H5L_OK) requests_.push_back({params.codec, params.mode});
      }
    }
    CHECK(requests_.size() > 2, "%zu codecs and modes", requests_.size());
  }

  // All codecs and modes, including auto.
  [[nodiscard]] const std::vector<Request>& requests() const { return requests_; }

  [[nodiscard]] const hdf5::FilterClass& filter() const { return *filter_; }

  [[nodiscard]] Bytes encode(const Words& cd_values, const Bytes& raw, unsigned flags = 0) const {
    Bytes frame = run(flags, cd_values, raw);
    CHECK(!frame.empty(), "encoding %zu bytes with %zu words failed", raw.size(), cd_values.size());
    CHECK(frame.size() <= raw.size() + 40, "%zu bytes became %zu", raw.size(), frame.size());
    return frame;
  }

  // Whether the plugin refuses a chunk.
  [[nodiscard]] bool refuses(const Words& cd_values, const Bytes& raw) const {
    return run(hdf5::kFlagMandatory, cd_values, raw).empty();
  }

  // Empty where the plugin refuses.
  [[nodiscard]] Bytes decode(const Words& cd_values, const Bytes& frame) const {
    return run(hdf5::kFlagReverse, cd_values, frame);
  }

 private:
  [[nodiscard]] Bytes run(unsigned flags, const Words& cd_values, const Bytes& in) const {
    void* buffer = std::malloc(std::max<std::size_t>(in.size(), 1));
    CHECK(buffer != nullptr, "no memory for %zu bytes", in.size());
    void* const given = buffer;
    std::copy(in.begin(), in.end(), static_cast<std::uint8_t*>(buffer));
    std::size_t capacity = in.size();
    const std::size_t size = filter_->filter(flags, cd_values.size(), cd_values.data(), in.size(), &capacity, &buffer);
    Bytes result;
    if (size == 0) {
      CHECK(buffer == given && capacity == in.size(), "a failure has changed the buffer");
      CHECK(std::equal(in.begin(), in.end(), static_cast<const std::uint8_t*>(buffer)),
            "a failure has changed the bytes");
    } else {
      CHECK(size <= capacity, "%zu bytes in a buffer of %zu", size, capacity);
      auto* const bytes = static_cast<std::uint8_t*>(buffer);
      result.assign(bytes, bytes + size);
      // If the chunk size is unknown, the buffer is large enough for any chunk; then only its ends are compared.
      const std::size_t looked_at = std::min(capacity - size, std::size_t{1} << 12);
      const auto is_zero = [](const std::uint8_t* at, std::size_t count) {
        return std::all_of(at, at + count, [](std::uint8_t byte) { return byte == 0; });
      };
      const bool rest_is_zero = is_zero(bytes + size, looked_at) && is_zero(bytes + capacity - looked_at, looked_at);
      CHECK((flags & hdf5::kFlagReverse) == 0 || rest_is_zero, "the heap shows behind %zu decoded bytes", size);
      std::memset(bytes, 0, size + looked_at);  // all of it is there
      std::memset(bytes + capacity - looked_at, 0, looked_at);
    }
    std::free(buffer);
    return result;
  }

  const hdf5::FilterClass* filter_;
  std::vector<Request> requests_;
};

inline constexpr Request kPfpl = {H5L_CODEC_PFPL, 0};

// Stored cd_values.
inline Words stored_words(const Request& request, const Setting& setting, std::uint32_t value_bytes, bool big_endian,
                          const Words& extents) {
  const auto bound = std::bit_cast<std::uint64_t>(setting.bound);
  Words words(16);
  words[0] = request.codec;
  words[1] = setting.kind;
  words[2] = static_cast<unsigned>(bound);
  words[3] = static_cast<unsigned>(bound >> 32);
  words[4] = request.mode;
  words[5] = 1u | value_bytes << 8 | (big_endian ? 1u << 16 : 0) | static_cast<unsigned>(extents.size()) << 24;
  std::copy(extents.begin(), extents.end(), words.begin() + 6);
  return words;
}

}  // namespace h5lossy::test

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin, loaded as HDF5 loads it, decodes everything that it encoded, for any codec and cd_values. It encodes every
// chunk, except those whose size contradicts complete cd_values, which could not be read again. If a frame is broken or does
// not belong to the dataset, it returns 0 and changes neither buffer nor size.
//
// usage: plugin_loses_no_chunk path/to/libh5lossy.so

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "check.h"
#include "filter/hdf5_symbols.h"
#include "frames.h"
#include "values.h"

namespace h5lossy::test {
namespace {

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

constexpr Request kPfpl = {H5L_CODEC_PFPL, 0};

// Stored cd_values.
Words stored_words(const Request& request, const Setting& setting, std::uint32_t value_bytes, bool big_endian,
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

template <class T>
void check_values(const Plugin& plugin, const Request& request, Random& random) {
  for (const Setting& setting : settings<T>()) {
    for (const bool big_endian : {false, true}) {
      Values<T> source(random, setting, 100);
      const std::vector<Bits<T>> values = source.make(10 * 20 * 25);
      const Bytes raw = to_bytes<T>(values, big_endian);
      const Words words = stored_words(request, setting, sizeof(T), big_endian, {10, 20, 25});
      const Bytes decoded_raw = plugin.decode(words, plugin.encode(words, raw));
      CHECK(decoded_raw.size() == raw.size(), "%zu bytes became %zu", raw.size(), decoded_raw.size());
      const std::vector<Bits<T>> decoded = to_values<T>(decoded_raw, big_endian);
      h5l_params params = make_params(setting.kind, setting.bound, sizeof(T));
      params.maybe_padded = 1;
      const std::string name = "codec " + std::to_string(request.codec) + ", mode " + std::to_string(request.mode);
      check_promise<T>(name.c_str(), params, values, decoded);
    }
  }
}

// Without the local part, or with one that makes no sense, the bytes come back as they were.
void check_stored(const Plugin& plugin, Random& random) {
  const Setting setting = {H5L_BOUND_ABSOLUTE, 1e-3};
  Values<float> source(random, setting, 0);
  const std::vector<Bits<float>> values = source.make(1000);
  const Bytes raw = to_bytes<float>(values, false);
  const Words full = stored_words(kPfpl, setting, 4, false, {1000});
  std::vector<Words> settings = {{}, {1}, Words(full.begin(), full.begin() + 4), Words(full.begin(), full.begin() + 5)};
  for (const unsigned count : {0u, 1u, 999u, 1001u, 100000u}) {
    CHECK(plugin.refuses(stored_words(kPfpl, setting, 4, false, {count}), raw), "cd_values of %u values", count);
  }
  CHECK(plugin.refuses(stored_words(kPfpl, setting, 8, false, {1000}), raw), "cd_values of float64");
  Words broken = full;
  broken[0] = 99;  // a codec that there is not
  settings.push_back(broken);
  broken = full;
  broken[3] = 0xFFFFFFFF;  // a bound that is NaN
  settings.push_back(broken);
  for (const Words& words : settings) {
    const Bytes frame = plugin.encode(words, raw);
    CHECK(plugin.decode(words, frame) == raw, "%zu words", words.size());
    CHECK(plugin.decode({}, frame) == raw, "%zu words, decoded without", words.size());
  }
  for (const Request& request : plugin.requests()) {
    const Words words = stored_words(request, setting, 4, false, {10, 10, 10});
    CHECK(plugin.encode(words, raw).size() < raw.size(), "codec %u, mode %u: with the right words it compresses",
          request.codec, request.mode);
  }

  // HDF5 does not call an optional filter's can_apply and set_local, so the words may belong to other data.
  CHECK(plugin.decode(full, plugin.encode(full, raw, hdf5::kFlagOptional)) == raw, "an optional filter");

  // The dataset's own chunk of a size that is no multiple of a value's.
  Bytes odd = raw;
  odd.resize(odd.size() - 1);
  CHECK(plugin.refuses(full, odd), "part of a value");
}

// Bytes of the chunk that stored cd_values describe.
double described_bytes(const Words& words) {
  if (words.size() < 6) return 0;
  double bytes = words[5] >> 8 & 0xFF;
  for (std::size_t i = 6; i < 6 + (words[5] >> 24); ++i) bytes *= i < words.size() ? words[i] : 0;
  return bytes;
}

// Whatever the words are.
void check_any_words(const Plugin& plugin, Random& random) {
  for (int i = 0; i < 20000; ++i) {
    const Setting setting = settings<float>()[random.below(settings<float>().size())];
    Bytes raw(4 * (1 + random.below(100)));
    for (std::uint8_t& byte : raw) byte = static_cast<std::uint8_t>(random.next());
    const Request& request = plugin.requests()[random.below(plugin.requests().size())];
    const unsigned count = static_cast<unsigned>(raw.size() / 4);
    const Words extents = random.one_in(2) ? Words{count} : count % 2 == 0 ? Words{2, count / 2} : Words{1, count, 1};
    Words words = stored_words(request, setting, random.one_in(2) ? 4 : 8, random.one_in(2), extents);
    for (std::uint64_t changes = random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(16);
      words[at] = random.one_in(2) ? static_cast<unsigned>(random.next()) : words[at] ^ 1u << random.below(32);
    }
    if (random.one_in(4)) words.resize(random.below(20));
    if (plugin.refuses(words, raw)) {
      CHECK(described_bytes(words) != static_cast<double>(raw.size()), "a chunk of %zu bytes is refused", raw.size());
      continue;
    }
    const Bytes frame = plugin.encode(words, raw);
    CHECK(plugin.decode(words, frame).size() == raw.size(), "a chunk of %zu bytes is lost", raw.size());
  }
}

void check_broken_frames(const Plugin& plugin, const Request& request, Random& random) {
  const Setting setting = {H5L_BOUND_ABSOLUTE, 1e-3};
  Values<float> source(random, setting, 0);
  const std::vector<Bits<float>> values = source.make(1000);
  const Words words = stored_words(request, setting, 4, false, {10, 10, 10});
  const Bytes frame = plugin.encode(words, to_bytes<float>(values, false));
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(plugin.decode(words, cut).empty(), "cut to %zu of %zu bytes", size, frame.size());
  }
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    CHECK(plugin.decode(words, changed).empty(), "bit %zu is changed", bit);
  }

  // A right frame, of another dataset.
  for (const Words& other :
       {stored_words(request, setting, 4, false, {999}), stored_words(request, setting, 4, false, {1001}),
        stored_words(request, setting, 8, false, {500}), stored_words(request, setting, 4, true, {10, 10, 10})}) {
    CHECK(plugin.decode(other, frame).empty(), "a chunk of %u values of %u bytes", other[6], other[5] >> 8 & 0xFF);
  }
  // Another codec, shape or bound does not matter: a frame says all itself.
  CHECK(!plugin.decode(stored_words(kPfpl, {H5L_BOUND_LOSSLESS, 0}, 4, false, {1000}), frame).empty(), "another bound");
}

// HDF5 2.0 takes a chunk from the buffer without a look at how much the filter gave. A frame of bytes may have any size.
void check_other_sizes(const Plugin& plugin) {
  const Words words = stored_words(kPfpl, {H5L_BOUND_ABSOLUTE, 1e-3}, 4, false, {1000});
  for (const std::size_t size : {1u, 4u, 3999u, 4000u, 4001u}) {
    const Bytes decoded = plugin.decode(words, plugin.encode({}, Bytes(size)));
    CHECK(decoded.size() == (size == 4000 ? size : 0), "a frame of %zu bytes for a chunk of 4000", size);
  }
}

// The callbacks that need HDF5's functions, which do not exist here.
void check_without_hdf5(const Plugin& plugin) {
  const hdf5::FilterClass& filter = plugin.filter();
  CHECK(filter.version == 1 && filter.id == 46412 && filter.encoder_present == 1 && filter.decoder_present == 1,
        "version %d, filter %d", filter.version, filter.id);
  CHECK(filter.can_apply(1, 1, 1) > 0, "can_apply lets the user's own cd_values do");
  CHECK(filter.set_local(1, 1, 1) >= 0, "set_local lets the user's own cd_values do");
  CHECK(filter.can_apply(-1, -1, -1) <= 0, "a group's heap is nothing for us");
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  CHECK(count == 2, "usage: %s path/to/libh5lossy.so", arguments[0]);
  const Plugin plugin(arguments[1]);
  Random random(13);
  check_without_hdf5(plugin);
  for (const Request& request : plugin.requests()) {
    check_values<float>(plugin, request, random);
    check_values<double>(plugin, request, random);
    check_broken_frames(plugin, request, random);
  }
  check_stored(plugin, random);
  check_any_words(plugin, random);
  check_other_sizes(plugin);
}

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 plugin, loaded as HDF5 loads it, decodes everything that it encoded, for any codec and cd_values. It encodes every
// chunk, except those whose size contradicts complete cd_values, which could not be read again. If a frame is broken or does
// not belong to the dataset, it returns 0 and changes neither buffer nor size.
//
// usage: plugin_loses_no_chunk path/to/libh5lossy.so

#include <iterator>
#include <string>

#include "check.h"
#include "frames.h"
#include "plugin.h"
#include "values.h"

namespace h5lossy::test {
namespace {

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
  for (unsigned kind = H5L_BOUND_ABSOLUTE; kind <= H5L_BOUND_NOISE; ++kind) {
    Words typeless = stored_words(kPfpl, {kind, kind == H5L_BOUND_LOSSLESS ? 0 : 0.5}, 4, false, {1000});
    typeless.resize(4);
    settings.push_back(typeless);
  }
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
  double bytes = words[5] >> 8 & 0xF;
  for (std::size_t i = 6; i < 6 + (words[5] >> 24); ++i) bytes *= i < words.size() ? words[i] : 0;
  return bytes;
}

// Whatever the words are.
void check_any_words(const Plugin& plugin, Random& random) {
  for (int i = 0; i < cases(20000); ++i) {
    const Setting setting = settings<float>()[random.below(settings<float>().size())];
    Bytes raw(4 * (1 + random.below(100)));
    for (std::uint8_t& byte : raw) byte = static_cast<std::uint8_t>(random.next());
    const Request& request = plugin.requests()[random.below(plugin.requests().size())];
    constexpr unsigned types[] = {4, 8, 0x11, 0x12, 0x14, 0x22, 0x28, 0x32, 0x42, 0x54};
    const unsigned type = types[random.below(std::size(types))];
    const unsigned count = static_cast<unsigned>(raw.size() / (type & 0xF));
    const Words extents = random.one_in(2) ? Words{count} : count % 2 == 0 ? Words{2, count / 2} : Words{1, count, 1};
    Words words = stored_words(request, setting, type, random.one_in(2), extents);
    if (random.one_in(4)) words = stored_words(request, {H5L_BOUND_NOISE, 1}, type, random.one_in(2), extents);
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
  for (std::size_t size = 0; size < frame.size(); size += kCaseStep) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(plugin.decode(words, cut).empty(), "cut to %zu of %zu bytes", size, frame.size());
  }
  for (std::size_t bit = 0; bit < 8 * frame.size(); bit += kCaseStep) {
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

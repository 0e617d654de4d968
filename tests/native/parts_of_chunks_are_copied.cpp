// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Chunks within a larger array, or partly outside of it: the frames equal those of chunks that were assembled value by
// value, and each decoded part is written to its place in the array and nowhere else, from only those tiles that hold
// it.

#include <algorithm>
#include <cstring>
#include <numeric>

#include "check.h"
#include "layout.h"
#include "methods.h"
#include "seal.h"
#include "values.h"

namespace h5lossy::test {
namespace {

using Place = std::vector<std::uint64_t>;

// An array of words with any order of its axes, some of them backwards.
struct Array {
  Place extents;
  std::vector<std::int64_t> strides;  // in bytes
  Bytes memory;
  std::size_t origin = 0;

  Array(Random& random, const Place& shape, std::size_t value_bytes) : extents(shape), strides(shape.size()) {
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (random.one_in(2)) {
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    }
    std::size_t step = value_bytes * (random.one_in(3) ? 3 : 1);
    for (std::size_t i = order.size(); i-- > 0;) {
      const std::size_t axis = order[i];
      const bool backwards = random.one_in(4);
      strides[axis] = backwards ? -static_cast<std::int64_t>(step) : static_cast<std::int64_t>(step);
      if (backwards) origin += step * static_cast<std::size_t>(shape[axis] - 1);
      step *= static_cast<std::size_t>(shape[axis]);
    }
    memory.resize(step + value_bytes);
  }

  std::uint8_t* at(const Place& place) {
    auto offset = static_cast<std::int64_t>(origin);
    for (std::size_t axis = 0; axis < place.size(); ++axis)
      offset += strides[axis] * static_cast<std::int64_t>(place[axis]);
    return memory.data() + offset;
  }
};

// Calls visit(place) for each place below the extents, the last axis fastest.
template <class Visit>
void for_places(const Place& extents, Visit visit) {
  Place place(extents.size(), 0);
  for (;;) {
    visit(place);
    std::size_t axis = extents.size();
    while (axis > 0 && ++place[axis - 1] == extents[axis - 1]) place[--axis] = 0;
    if (axis == 0) return;
  }
}

Place sum(Place a, const Place& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// A batch of parts as the C API takes it.
struct Batch {
  Place chunk;
  std::vector<Place> corners, firsts, extents;  // of each part: in the array, in its chunk
  Place flat_firsts, flat_extents;
  std::vector<std::size_t> raw_bytes;
  h5l_parts parts = {};

  Batch(Random& random, const Array& array, const Place& chunk_shape, std::size_t value_bytes) : chunk(chunk_shape) {
    const std::size_t rank = chunk.size();
    std::size_t bytes = value_bytes;
    for (const std::uint64_t extent : chunk) bytes *= static_cast<std::size_t>(extent);
    for (int i = 0; i < 6; ++i) {
      Place corner(rank), first(rank), extent(rank);
      for (std::size_t axis = 0; axis < rank; ++axis) {
        const std::uint64_t most = std::min(chunk[axis], array.extents[axis]);
        extent[axis] = random.one_in(2) ? most : 1 + random.below(most);
        first[axis] = random.below(chunk[axis] - extent[axis] + 1);
        corner[axis] = random.below(array.extents[axis] - extent[axis] + 1);
      }
      corners.push_back(corner);
      firsts.push_back(first);
      extents.push_back(extent);
      flat_firsts.insert(flat_firsts.end(), first.begin(), first.end());
      flat_extents.insert(flat_extents.end(), extent.begin(), extent.end());
      raw_bytes.push_back(bytes);
    }
    parts.rank = static_cast<std::uint32_t>(rank);
    std::copy(chunk.begin(), chunk.end(), parts.chunk);
    std::copy(array.strides.begin(), array.strides.end(), parts.strides);
    parts.padding_bits = 0xC2F6E97900000000u;
    if (value_bytes == 4) parts.padding_bits = 0xC479C000u;
    parts.first = flat_firsts.data();
    parts.extents = flat_extents.data();
  }
  [[nodiscard]] std::size_t count() const { return corners.size(); }
};

template <class T>
void check_round(Random& random, bool of_unknown_type) {
  const std::size_t rank = random.below(5);
  Place shape, chunk;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    shape.push_back(1 + random.below(12));
    chunk.push_back(1 + random.below(10));
  }
  Array array(random, shape, sizeof(T));
  const Batch batch(random, array, chunk, sizeof(T));
  Values<T> source(random, {H5L_BOUND_ABSOLUTE, 1e-3}, 20);
  for_places(shape, [&](const Place& place) {
    const Bits<T> bits = source.make(1)[0];
    std::memcpy(array.at(place), &bits, sizeof bits);
  });
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 1e-3, sizeof(T));

  // The chunks, value by value, and their frames.
  std::vector<Bytes> chunks, expected;
  for (std::size_t i = 0; i < batch.count(); ++i) {
    Bytes raw;
    for_places(chunk, [&](const Place& place) {
      bool inside = true;
      Place in_array = batch.corners[i];
      for (std::size_t axis = 0; axis < rank; ++axis) {
        const std::uint64_t from = place[axis] - batch.firsts[i][axis];  // wraps to a large number in front of it
        inside = inside && from < batch.extents[i][axis];
        in_array[axis] += from;
      }
      const auto* const value =
          inside ? array.at(in_array) : reinterpret_cast<const std::uint8_t*>(&batch.parts.padding_bits);
      raw.insert(raw.end(), value, value + sizeof(T));
    });
    h5l_params own = params;
    if (of_unknown_type) own.value_bytes = 0;
    expected.push_back(encode(own, raw));
    chunks.push_back(raw);
  }

  std::vector<const void*> from;
  std::vector<void*> to, frames;
  std::vector<Bytes> made;
  for (std::size_t i = 0; i < batch.count(); ++i) {
    from.push_back(array.at(batch.corners[i]));
    to.push_back(array.at(batch.corners[i]));
    made.emplace_back(h5l_max_encoded_size(batch.raw_bytes[i]));
  }
  std::vector<std::size_t> capacities, written(batch.count());
  for (Bytes& frame : made) frames.push_back(frame.data()), capacities.push_back(frame.size());
  std::vector<h5l_status> statuses(batch.count());
  h5l_message message;
  h5l_status status =
      h5l_encode_batch(&params, &batch.parts, batch.count(), from.data(), batch.raw_bytes.data(), frames.data(),
                       capacities.data(), written.data(), statuses.data(), nullptr, 3, &message);
  CHECK(status == H5L_OK, "%s", message.text);
  for (std::size_t i = 0; i < batch.count(); ++i) {
    made[i].resize(written[i]);
    CHECK(of_unknown_type || made[i] == expected[i], "part %zu of rank %zu", i, rank);
  }

  // One by one, since the places may overlap; and all bytes of the array are looked at.
  for (std::size_t i = 0; i < batch.count(); ++i) {
    const Bytes decoded = decode(expected[i]);
    std::fill(array.memory.begin(), array.memory.end(), std::uint8_t{0xEE});
    Bytes wanted = array.memory;
    for_places(batch.extents[i], [&](const Place& place) {
      const Place in_chunk = sum(place, batch.firsts[i]);
      std::size_t number = 0;
      for (std::size_t axis = 0; axis < rank; ++axis) number = number * chunk[axis] + in_chunk[axis];
      const std::uint8_t* const value = decoded.data() + number * sizeof(T);
      std::copy(value, value + sizeof(T),
                wanted.data() + (array.at(sum(place, batch.corners[i])) - array.memory.data()));
    });
    h5l_parts one = batch.parts;
    one.first += i * rank;
    one.extents += i * rank;
    const void* const frame = expected[i].data();
    const std::size_t frame_bytes = expected[i].size();
    status = h5l_decode_batch(&params, &one, 1, &frame, &frame_bytes, &to[i], &batch.raw_bytes[i], &statuses[i],
                              nullptr, 1, &message);
    CHECK(status == H5L_OK, "%s", message.text);
    CHECK(array.memory == wanted, "part %zu of rank %zu", i, rank);
  }
}

// The frame with longer payloads of some tiles, which no decoder accepts; its checksums are correct.
Bytes without_tiles(const Bytes& frame, const Layout& layout, const std::vector<bool>& keep) {
  Bytes made(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(layout.payload_at()));
  std::size_t begin = layout.payload_at();
  for (std::uint32_t tile = 0; tile < layout.geometry.tiles(); ++tile) {
    const std::size_t entry = layout.table_at() + 4 * tile, end = layout.payload_at() + word_at(frame, entry);
    made.insert(made.end(), frame.begin() + static_cast<std::ptrdiff_t>(begin),
                frame.begin() + static_cast<std::ptrdiff_t>(end));
    if (!keep[tile]) made.resize(made.size() + layout.geometry.max_tile_bytes() + 1);
    set_word(made, entry, static_cast<std::uint32_t>(made.size() - layout.payload_at()));
    begin = end;
  }
  seal(made);
  return made;
}

// Returns whether only some of the tiles were needed, and so decoded.
template <class T>
bool check_tiles(Random& random, const Method& method) {
  h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, 1e-3, sizeof(T));
  params.big_endian = random.one_in(4) ? 1 : 0;
  const std::vector<std::uint32_t> extents =
      random_extents(random, method.tile_values(sizeof(T)) * (2 + random.below(9)));
  set_shape(params, extents);
  Values<T> source(random, {params.bound_kind, params.bound}, 20);
  const Bytes raw = to_bytes<T>(source.make(product(extents)), params.big_endian != 0);
  const Bytes frame = encode(params, raw), decoded = decode(frame);
  const Layout layout = layout_of(frame);

  const Place chunk(extents.begin(), extents.end());
  Place first, extent;
  for (const std::uint64_t most : chunk) {
    extent.push_back(random.one_in(3) ? most
                                      : 1 + random.below(random.one_in(2) ? std::min<std::uint64_t>(most, 3) : most));
    first.push_back(random.below(most - extent.back() + 1));
  }
  Array array(random, extent, sizeof(T));
  h5l_parts parts = {};
  parts.rank = static_cast<std::uint32_t>(chunk.size());
  std::copy(chunk.begin(), chunk.end(), parts.chunk);
  std::copy(array.strides.begin(), array.strides.end(), parts.strides);
  parts.first = first.data();
  parts.extents = extent.data();

  std::fill(array.memory.begin(), array.memory.end(), std::uint8_t{0xEE});
  Bytes wanted = array.memory;
  std::vector<bool> is_wanted(raw.size() / sizeof(T));
  for_places(extent, [&](const Place& place) {
    std::size_t number = 0;
    for (std::size_t axis = 0; axis < chunk.size(); ++axis) number = number * chunk[axis] + first[axis] + place[axis];
    is_wanted[number] = true;
    std::memcpy(wanted.data() + (array.at(place) - array.memory.data()), decoded.data() + number * sizeof(T),
                sizeof(T));
  });
  const std::uint32_t tiles = layout.geometry.tiles();
  std::vector<bool> keep(tiles);
  for (std::uint32_t tile = 0; tile < tiles; ++tile) {
    const std::vector<std::uint64_t> mine = layout.values_of(tile);
    keep[tile] = std::any_of(mine.begin(), mine.end(), [&](std::uint64_t value) { return is_wanted[value]; });
  }
  const auto needed = static_cast<std::uint64_t>(std::count(keep.begin(), keep.end(), true));
  const bool is_some = tiles != 0 && 2 * needed <= tiles;  // a stored frame has none

  const Bytes damaged = is_some ? without_tiles(frame, layout, keep) : frame;
  const void* const in = damaged.data();
  void* const to = array.at(Place(chunk.size(), 0));
  const std::size_t frame_bytes = damaged.size(), raw_bytes = raw.size();
  h5l_status own;
  h5l_message message;
  const h5l_status status = h5l_decode_batch(&params, &parts, 1, &in, &frame_bytes, &to, &raw_bytes, &own, nullptr,
                                             random.one_in(2) ? 1 : 3, &message);
  CHECK(status == H5L_OK, "%s: %s", method.name.c_str(), message.text);
  CHECK(array.memory == wanted, "%s: %llu of %u tiles", method.name.c_str(), static_cast<unsigned long long>(needed),
        tiles);
  if (is_some) {  // a tile that is needed is noticed
    const auto one = std::find(keep.begin(), keep.end(), true);
    *one = false;
    const Bytes broken = without_tiles(frame, layout, keep);
    const void* const it = broken.data();
    const std::size_t broken_bytes = broken.size();
    CHECK(h5l_decode_batch(&params, &parts, 1, &it, &broken_bytes, &to, &raw_bytes, &own, nullptr, 1, nullptr) ==
              H5L_CORRUPT,
          "%s", method.name.c_str());
  }
  return is_some;
}

void only_tiles_with_wanted_values_are_decoded() {
  Random random(14);
  for (const Method& method : methods()) {
    int some = 0;
    for (int round = 0; round < 12; ++round) {
      some += (round % 3 == 0 ? check_tiles<double>(random, method) : check_tiles<float>(random, method)) ? 1 : 0;
    }
    CHECK(some > 0, "%s", method.name.c_str());
  }
}

// Also where only some tiles are decoded, and the damage is in others.
void damage_anywhere_in_a_frame_is_seen() {
  Random random(12);
  Values<float> source(random, {H5L_BOUND_ABSOLUTE, 1e-3}, 0);
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 1e-3, 4);
  const Bytes raw = to_bytes<float>(source.make(100 * 1000), false);
  Bytes frame = encode(params, raw);
  frame.back() ^= 1;
  h5l_parts parts = {};
  parts.rank = 2;
  parts.chunk[0] = 100;
  parts.chunk[1] = 1000;
  parts.strides[0] = 4000;
  parts.strides[1] = 4;
  std::uint64_t first[] = {10, 0}, extents[] = {5, 1000};
  parts.first = first;
  parts.extents = extents;
  Bytes out(raw.size());
  const void* const in = frame.data();
  void* const to = out.data();
  const std::size_t frame_bytes = frame.size(), raw_bytes = raw.size();
  h5l_status own;
  const auto decode_it = [&] {
    return h5l_decode_batch(&params, &parts, 1, &in, &frame_bytes, &to, &raw_bytes, &own, nullptr, 1, nullptr);
  };
  for (const std::uint64_t rows : {1u, 5u, 80u}) {
    extents[0] = rows;
    CHECK(decode_it() == H5L_CORRUPT, "%d", own);
  }
}

void what_is_no_part_of_a_chunk_is_refused() {
  const Bytes raw(64);
  Bytes frame(104);
  const h5l_params good_params = make_params(H5L_BOUND_ABSOLUTE, 1e-3, 4);
  const std::uint64_t first[] = {0}, extents[] = {16}, late[] = {1}, nothing[] = {0}, many[] = {17};
  h5l_parts good = {};
  good.rank = 1;
  good.chunk[0] = 16;
  good.strides[0] = 4;
  good.first = first;
  good.extents = extents;
  const auto try_it = [&](const h5l_params& params, const h5l_parts& parts, std::size_t raw_bytes) {
    const void* const from = raw.data();
    void* const to = frame.data();
    const std::size_t capacity = frame.size();
    std::size_t written = 0;
    h5l_status own = H5L_INTERNAL;
    const h5l_status status =
        h5l_encode_batch(&params, &parts, 1, &from, &raw_bytes, &to, &capacity, &written, &own, nullptr, 1, nullptr);
    CHECK(own == status, "%d %d", own, status);
    return status;
  };
  CHECK(try_it(good_params, good, 64) == H5L_OK, "%s", "a good one");
  const auto refused = [&](auto change) {
    h5l_params params = good_params;
    h5l_parts parts = good;
    std::size_t raw_bytes = 64;
    change(params, parts, raw_bytes);
    return try_it(params, parts, raw_bytes) == H5L_INVALID_ARGUMENT;
  };
  CHECK(refused([](auto&, auto&, auto& bytes) { bytes = 60; }), "%s", "size");
  CHECK(refused([](auto& params, auto&, auto&) { params.value_bytes = 2; }), "%s", "type");
  CHECK(refused([](auto&, auto& parts, auto&) { parts.rank = H5L_MAX_PART_RANK + 1; }), "%s", "rank");
  CHECK(refused([](auto&, auto& parts, auto&) { parts.first = nullptr; }), "%s", "null");
  CHECK(refused([](auto&, auto& parts, auto&) { parts.chunk[0] = 0; }), "%s", "empty");
  CHECK(refused([](auto&, auto& parts, auto&) { parts.chunk[0] = std::uint64_t{1} << 62; }), "%s", "too large");
  CHECK(refused([&](auto&, auto& parts, auto&) { parts.first = late; }), "%s", "sticks out");
  CHECK(refused([&](auto&, auto& parts, auto&) { parts.extents = nothing; }), "%s", "nothing");
  CHECK(refused([&](auto&, auto& parts, auto&) { parts.extents = many; }), "%s", "too many");
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(13);
  for (int round = 0; round < 300; ++round) {
    check_round<float>(random, round % 10 == 0);
    check_round<double>(random, round % 10 == 0);
  }
  only_tiles_with_wanted_values_are_decoded();
  damage_anywhere_in_a_frame_is_seen();
  what_is_no_part_of_a_chunk_is_refused();
}

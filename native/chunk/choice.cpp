// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/choice.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace h5lossy {

void lay_out(std::uint32_t value_bytes, std::uint64_t count, Choice& choice) {
  choice.layout = choice.codec->layout(choice.mode, value_bytes, choice.dims);
  choice.geometry = Geometry(choice.layout, value_bytes, count, choice.dims);
}

// A codec's table for values of this class; null if it does not support them.
const Codec* codec_for(const CodecEntry& entry, std::uint32_t value_class) {
  return has_floats(value_class) ? entry.codec : entry.codec->for_integers;
}

const TileFunctions& Choice::functions(std::uint32_t value_class, std::uint32_t value_bytes) const {
  if (has_floats(value_class)) return value_bytes == 4 ? codec->float32 : codec->float64;
  const std::uint32_t words_class = is_half(value_class) ? H5L_CLASS_SIGNED : value_class;
  return codec->integers[words_class - H5L_CLASS_UNSIGNED][std::countr_zero(value_bytes)];
}

h5l_status open_codec(const FrameHeader& header, Choice& choice, const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  const CodecEntry* const entry = find_codec(backend->codecs, header.codec);
  if (entry == nullptr) {
    return why.fail(H5L_UNSUPPORTED, "codec %u is not in this version of h5lossy; a newer one may read it",
                    header.codec);
  }
  const Codec* const codec = codec_for(*entry, header.value_class);
  if (codec == nullptr) {
    return why.fail(H5L_UNSUPPORTED, "%s of type 0x%02x is not in this version of h5lossy; a newer one may read it",
                    entry->name, type_code(header.value_class, header.value_bytes));
  }
  choice.header_dims = codec->header_dims(header.mode);
  if (choice.header_dims == kNoMode) {
    return why.fail(H5L_UNSUPPORTED, "mode %u of %s is not in this version of h5lossy; a newer one may read it",
                    header.mode, entry->name);
  }
  choice.number = entry->number;
  choice.mode = header.mode;
  choice.codec = codec;
  return H5L_OK;
}

void open_geometry(const FrameHeader& header, Choice& choice) {
  const std::uint32_t count = header.raw_bytes / header.value_bytes;
  std::fill_n(choice.dims, kAxes, 1);
  choice.dims[kAxes - 1] = count;
  if (choice.header_dims != 0) {
    choice.dims[kAxes - 1] = 1;
    std::copy_n(header.dims, choice.header_dims, std::end(choice.dims) - choice.header_dims);
  }
  lay_out(header.value_bytes, count, choice);
}

h5l_status open_choice(const Frame& frame, Choice& choice, const Message& why) {
  if (const h5l_status status = open_codec(frame.header, choice, why); status != H5L_OK) return status;
  open_geometry(frame.header, choice);
  return H5L_OK;
}

}  // namespace h5lossy

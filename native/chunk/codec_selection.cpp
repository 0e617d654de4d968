// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/codec_selection.h"

#include <algorithm>

namespace h5lossy {

std::uint32_t read_shape(const h5l_params& params, std::uint64_t count, std::uint32_t (&dims)[3]) {
  std::uint32_t extents[H5L_MAX_RANK];
  std::uint32_t rank = 0;
  std::uint64_t product = 1;
  for (std::uint32_t i = 0; i < params.rank && product <= count; ++i) {
    product *= params.shape[i];
    if (params.shape[i] != 1) extents[rank++] = params.shape[i];
  }
  dims[0] = dims[1] = 1;
  dims[2] = static_cast<std::uint32_t>(count);
  if (product != count || rank < 2) return 1;
  for (std::uint32_t i = 0; i + 2 < rank; ++i) dims[0] *= extents[i];
  dims[1] = extents[rank - 2];
  dims[2] = extents[rank - 1];
  return rank;
}

Choice make_choice(const CodecEntry& entry, std::uint32_t mode, const h5l_params& params, std::uint64_t count) {
  Choice choice;
  choice.number = entry.number;
  choice.codec = entry.codec;
  const std::uint32_t rank = read_shape(params, count, choice.dims);
  choice.mode = entry.codec->frame_mode(mode, rank);
  Blocking blocking;
  entry.codec->blocking(choice.mode, params.value_bytes, blocking);
  choice.geometry = Geometry(blocking, params.value_bytes, count, choice.dims);
  choice.has_dims = !choice.geometry.is_linear();
  return choice;
}

Choice make_choice_of_part(const Choice& of_chunk, std::uint32_t value_bytes, const std::uint32_t (&dims)[3],
                           std::uint64_t count) {
  Choice choice = of_chunk;
  std::copy_n(dims, 3, choice.dims);
  Blocking blocking;
  choice.codec->blocking(choice.mode, value_bytes, blocking);
  choice.geometry = Geometry(blocking, value_bytes, count, choice.dims);
  return choice;
}

h5l_status open_codec(const FrameHeader& header, Choice& choice, const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  const CodecEntry* const entry = backend->find(header.codec);
  if (entry == nullptr) {
    return why.fail(H5L_UNSUPPORTED, "codec %u is not in this version of h5lossy; a newer one may read it",
                    header.codec);
  }
  Blocking blocking;
  if (!entry->codec->blocking(header.mode, header.value_bytes, blocking)) {
    return why.fail(H5L_UNSUPPORTED, "mode %u of %s is not in this version of h5lossy; a newer one may read it",
                    header.mode, entry->name);
  }
  choice.number = entry->number;
  choice.mode = header.mode;
  choice.codec = entry->codec;
  choice.has_dims = blocking.extents[2] != 0;
  return H5L_OK;
}

void open_geometry(const FrameHeader& header, Choice& choice) {
  Blocking blocking;
  choice.codec->blocking(choice.mode, header.value_bytes, blocking);
  choice.geometry = Geometry(blocking, header.value_bytes, header.raw_bytes / header.value_bytes, header.dims);
}

h5l_status open_choice(const Frame& frame, Choice& choice, const Message& why) {
  if (const h5l_status status = open_codec(frame.header, choice, why); status != H5L_OK) return status;
  open_geometry(frame.header, choice);
  return H5L_OK;
}

}  // namespace h5lossy

/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers are C: a C11 program that includes nothing else compiles and works. */

#include "h5lossy_assess.h"
#include "h5lossy_chunks.h"
#include "h5lossy_device.h"

int main(void) {
  const float values[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  float decoded[4] = {0};
  unsigned char frame[sizeof values + 40];
  size_t frame_bytes = 0;
  h5l_params params = {0};
  h5l_frame_info info;
  h5l_message message;
  int i;

  params.codec = H5L_CODEC_PFPL;
  params.bound_kind = H5L_BOUND_ABSOLUTE;
  params.bound = 0.01;
  params.value_bytes = sizeof values[0];
  if (h5l_encode(&params, values, sizeof values, frame, sizeof frame, &frame_bytes, &message) != H5L_OK) return 1;
  if (h5l_inspect(frame, frame_bytes, &info, &message) != H5L_OK || info.raw_bytes != sizeof values) return 2;
  if (h5l_decode(frame, frame_bytes, decoded, sizeof decoded, &message) != H5L_OK) return 3;
  for (i = 0; i < 4; ++i) {
    if (decoded[i] < values[i] - 0.01 || decoded[i] > values[i] + 0.01) return 4;
  }
  return 0;
}

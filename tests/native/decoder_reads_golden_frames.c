/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The library that only decodes, from a C99 program that includes its header and nothing else of h5lossy: it reads all
 * golden frames, in every byte order, and refuses them if they are damaged.
 *
 *   decoder_reads_golden_frames FRAME...
 *
 * What a frame decodes to is in the file beside it, FRAME with .json in place of .frame. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5lossy_decode.h"

static void fail(const char* path, const char* what) {
  fprintf(stderr, "%s: %s\n", path, what);
  exit(1);
}

static unsigned char* read_file(const char* path, size_t* size) {
  FILE* const file = fopen(path, "rb");
  size_t room = 1 << 16, n;
  unsigned char* bytes = malloc(room);
  *size = 0;
  if (file == NULL || bytes == NULL) fail(path, "cannot be opened");
  while ((n = fread(bytes + *size, 1, room - *size, file)) != 0) {
    *size += n;
    if (*size < room) continue;
    room *= 2;
    bytes = realloc(bytes, room);
    if (bytes == NULL) fail(path, "out of memory");
  }
  fclose(file);
  return bytes;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * SHA-256 (FIPS 180-4) */

static const uint32_t constants[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u};

static uint32_t rotated(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static void add_block(const unsigned char* block, uint32_t* state) {
  uint32_t w[64], s[8];
  int i;
  for (i = 0; i < 16; ++i) {
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
           block[4 * i + 3];
  }
  for (i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] =
        w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[i - 7] + (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
  }
  memcpy(s, state, sizeof s);
  for (i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t first =
        s[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + constants[i] + w[i];
    const uint32_t second =
        (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof s[0]);
    s[4] += first;
    s[0] = first + second;
  }
  for (i = 0; i < 8; ++i) state[i] += s[i];
}

static void digest(const unsigned char* bytes, size_t size, char* text) {
  uint32_t state[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                       0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  unsigned char last[128] = {0};
  const size_t whole = size / 64 * 64, rest = size - whole, padded = rest < 56 ? 64 : 128;
  size_t i;
  for (i = 0; i < whole; i += 64) add_block(bytes + i, state);
  if (rest != 0) memcpy(last, bytes + whole, rest);
  last[rest] = 0x80;
  for (i = 0; i < 8; ++i) last[padded - 1 - i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
  for (i = 0; i < padded; i += 64) add_block(last + i, state);
  for (i = 0; i < 8; ++i) sprintf(text + 8 * i, "%08lx", (unsigned long)state[i]);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Frames */

static void check_values(const char* path, const unsigned char* values, size_t size) {
  static const char key[] = "\"decoded_sha256\": \"";
  char name[4096], found[65];
  size_t json_bytes;
  const size_t length = strlen(path) - strlen(".frame");
  char* json;
  const char* expected;
  if (length >= sizeof name - 8) fail(path, "a name too long");
  memcpy(name, path, length);
  strcpy(name + length, ".json");
  json = (char*)read_file(name, &json_bytes);
  json[json_bytes - 1] = '\0'; /* in place of what ends the line */
  expected = strstr(json, key);
  if (expected == NULL) fail(name, "has no digest of the values");
  digest(values, size, found);
  if (strncmp(expected + strlen(key), found, 64) != 0) fail(path, "other values");
  free(json);
}

/* The same values with the bytes of each in the other order. */
static int are_swapped(const unsigned char* a, const unsigned char* b, size_t size, size_t value_bytes) {
  size_t i;
  for (i = 0; i < size; ++i) {
    if (a[i] != b[i - i % value_bytes + value_bytes - 1 - i % value_bytes]) return 0;
  }
  return 1;
}

static void check_frame(const char* path, const unsigned char* frame, size_t frame_bytes) {
  h5ld_info info;
  unsigned char *stored, *little, *big;
  size_t numbers;
  if (h5ld_inspect(frame, frame_bytes, &info) != H5LD_OK) fail(path, "is no frame");
  numbers = info.value_class == H5LD_CLASS_COMPLEX ? 2 : 1;
  if (info.count * info.value_bytes * numbers != info.raw_bytes) fail(path, "count and bytes do not agree");
  stored = malloc(info.raw_bytes + 1);
  little = malloc(info.raw_bytes + 1);
  big = malloc(info.raw_bytes + 1);
  if (stored == NULL || little == NULL || big == NULL) fail(path, "out of memory");
  if (h5ld_decode(frame, frame_bytes, H5LD_AS_STORED, stored, info.raw_bytes) != H5LD_OK ||
      h5ld_decode(frame, frame_bytes, H5LD_LITTLE_ENDIAN, little, info.raw_bytes) != H5LD_OK ||
      h5ld_decode(frame, frame_bytes, H5LD_BIG_ENDIAN, big, info.raw_bytes) != H5LD_OK) {
    fail(path, "is not decoded");
  }
  check_values(path, stored, info.raw_bytes);
  if (memcmp(stored, info.big_endian ? big : little, info.raw_bytes) != 0) fail(path, "another byte order");
  if (!are_swapped(little, big, info.raw_bytes, info.value_bytes)) fail(path, "big-endian values are others");
  if (info.raw_bytes != 0 &&
      h5ld_decode(frame, frame_bytes, H5LD_AS_STORED, stored, info.raw_bytes - 1) != H5LD_OUTPUT_TOO_SMALL) {
    fail(path, "is decoded to a buffer that is too small");
  }
  free(stored);
  free(little);
  free(big);
}

/* Frames that are cut, and bytes that are changed, in a block of memory that ends where the frame does. */
static void check_damage(const char* path, const unsigned char* frame, size_t frame_bytes) {
  uint64_t state = 46412;
  h5ld_info info;
  int i;
  for (i = 0; i < 64; ++i) {
    const int cut = i % 4 == 0;
    size_t size = frame_bytes, at;
    unsigned char *damaged, *values;
    h5ld_status status;
    state = state * 6364136223846793005u + 1442695040888963407u;
    at = (size_t)((state >> 33) % frame_bytes);
    if (cut) size = at;
    damaged = malloc(size + (size == 0));
    if (damaged == NULL) fail(path, "out of memory");
    memcpy(damaged, frame, size);
    if (!cut) damaged[at] ^= (unsigned char)(1u << (state >> 24) % 8);
    status = h5ld_inspect(damaged, size, &info);
    if (status == H5LD_OK) {
      values = malloc(info.raw_bytes + 1);
      if (values == NULL) fail(path, "out of memory");
      status = h5ld_decode(damaged, size, H5LD_AS_STORED, values, info.raw_bytes);
      free(values);
    }
    /* A frame without a checksum may decode to other values. */
    if (status == H5LD_OK && ((frame[10] & 1) != 0 || cut)) fail(path, "is decoded though it is damaged");
    if (status == H5LD_INVALID_ARGUMENT || status == H5LD_OUTPUT_TOO_SMALL || status == H5LD_OUT_OF_MEMORY) {
      fail(path, h5ld_status_text(status));
    }
    free(damaged);
  }
}

int main(int count, char** paths) {
  h5ld_info info;
  unsigned char byte = 0;
  int i;
  if (count < 2) fail(paths[0], "FRAME... are missing");
  for (i = 1; i < count; ++i) {
    size_t frame_bytes;
    unsigned char* const frame = read_file(paths[i], &frame_bytes);
    check_frame(paths[i], frame, frame_bytes);
    check_damage(paths[i], frame, frame_bytes);
    free(frame);
  }
  if (h5ld_inspect(NULL, 1, &info) != H5LD_INVALID_ARGUMENT || h5ld_inspect(&byte, 1, NULL) != H5LD_INVALID_ARGUMENT ||
      h5ld_decode(&byte, 1, (h5ld_byte_order)3, &byte, 1) != H5LD_INVALID_ARGUMENT) {
    fail("arguments", "are not checked");
  }
  for (i = H5LD_OK; i <= H5LD_OUT_OF_MEMORY + 1; ++i) {
    if (strlen(h5ld_status_text((h5ld_status)i)) == 0) fail("a status", "has no text");
  }
  printf("%d golden frames, version %s\n", count - 1, h5ld_version());
  return 0;
}

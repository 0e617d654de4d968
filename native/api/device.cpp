// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API for data on a GPU.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "api/guards.h"
#include "chunk/params.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "gpu/device.h"
#include "h5lossy_device.h"
#include "offload/device_selection.h"
#include "offload/gpu_requests.h"
#include "offload/kernel_check.h"
#include "runtime/device_speeds.h"
#include "runtime/entry.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

bool is_aligned(const void* pointer, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

template <std::size_t N>
void copy(const std::string& text, char (&to)[N]) {
  std::snprintf(to, N, "%s", text.c_str());
}

// Opens the GPU that memory belongs to.
h5l_status open_device(const void* pointer, gpu::Device*& device, const Message& why) {
  std::string reason;
  if (gpu::Device::count(reason) == 0) return why.fail(H5L_DEVICE_ERROR, "%s", reason.c_str());
  const int ordinal = gpu::Device::of_pointer(pointer);
  if (ordinal < 0) return why.fail(H5L_INVALID_ARGUMENT, "the values must be in the memory of a GPU");
  device = gpu::Device::open(ordinal, reason);
  return device != nullptr ? H5L_OK : why.fail(H5L_DEVICE_ERROR, "%s", reason.c_str());
}

h5l_status check_batch(const h5l_device_batch* batch, std::uint64_t value_bytes, const Message& why) {
  if (batch == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "batch must not be null");
  if (batch->count == 0 || batch->count > 65535) {
    return why.fail(H5L_INVALID_ARGUMENT, "a batch has 1 to 65535 chunks, got %u", batch->count);
  }
  if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4 && value_bytes != 8) {
    return why.fail(H5L_INVALID_ARGUMENT, "values must have 1, 2, 4 or 8 bytes, got %u",
                    static_cast<unsigned>(value_bytes));
  }
  if (batch->raw_bytes == 0 || batch->raw_bytes > kMaxRawBytes || batch->raw_bytes % value_bytes != 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "a chunk must have 1 to %zu bytes, a multiple of %u, got %llu", kMaxRawBytes,
                    static_cast<unsigned>(value_bytes), static_cast<unsigned long long>(batch->raw_bytes));
  }
  return H5L_OK;
}

h5l_status check_kernels(Direction direction, std::uint32_t codec, std::uint32_t mode, std::uint32_t value_class,
                         std::uint32_t bound_kind, const Message& why) {
  if (value_class > H5L_CLASS_COMPLEX) {
    return why.fail(H5L_INVALID_ARGUMENT, "value_class must be 0 to 5, got %u", value_class);
  }
  if (has_kernels(direction, codec, mode, value_class, bound_kind)) return H5L_OK;
  const bool encodes = direction == Direction::encode;
  const bool is_float = has_floats(value_class);
  const char* const name = codec != H5L_CODEC_AUTO ? codec_name(codec) : is_float ? "auto for size" : "auto";
  return why.fail(H5L_UNSUPPORTED, "%s has no GPU kernels for %s%s in this version of h5lossy; copy its %s to the host",
                  name, encodes ? "encoding" : "decoding", is_float ? "" : " integers or halves with this bound",
                  encodes ? "chunks" : "frames");
}

h5l_status check_memory(const h5l_device_batch& batch, std::uint64_t value_bytes, std::uint64_t workspace,
                        const Message& why) {
  if (batch.raw == nullptr || batch.frames == nullptr || batch.frame_bytes == nullptr || batch.workspace == nullptr) {
    return why.fail(H5L_INVALID_ARGUMENT, "raw, frames, frame_bytes and workspace must not be null");
  }
  if (!is_aligned(batch.raw, value_bytes) || batch.raw_stride % value_bytes != 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "raw and raw_stride must be multiples of a value's %u bytes",
                    static_cast<unsigned>(value_bytes));
  }
  if (!is_aligned(batch.frames, 4) || batch.frame_stride % 4 != 0 || !is_aligned(batch.frame_bytes, 8) ||
      !is_aligned(batch.workspace, 16)) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "frames and frame_stride must be multiples of 4, frame_bytes of 8, workspace of 16 bytes");
  }
  if (batch.workspace_bytes < workspace) {
    return why.fail(H5L_OUTPUT_TOO_SMALL, "the workspace needs %llu bytes, got %llu",
                    static_cast<unsigned long long>(workspace), static_cast<unsigned long long>(batch.workspace_bytes));
  }
  return H5L_OK;
}

h5l_status make_call(const h5l_params* params, const h5l_device_batch* batch, gpu::EncodeCall& call,
                     const Message& why) {
  if (params == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "params must not be null");
  if (const h5l_status status = check_params(*params, why); status != H5L_OK) return status;
  if (moves_values(*params)) {
    return why.fail(H5L_UNSUPPORTED,
                    "wide bins and safeguards have no GPU kernels for encoding; copy their chunks to the host");
  }
  const h5l_status has_kernels =
      check_kernels(Direction::encode, params->codec, params->mode, params->value_class, params->bound_kind, why);
  if (has_kernels != H5L_OK) return has_kernels;
  if (const h5l_status status = check_batch(batch, params->value_bytes, why); status != H5L_OK) return status;
  call = make_encode_call(*params, static_cast<std::size_t>(batch->raw_bytes), batch->count);
  call.plan.big_endian = 0;
  return H5L_OK;
}

h5l_status make_call(const h5l_frame_info* info, const h5l_device_batch* batch, std::uint64_t first,
                     std::uint64_t values, gpu::DecodeCall& call, const Message& why) {
  if (info == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "info must not be null");
  const h5l_status has_kernels =
      check_kernels(Direction::decode, info->codec, info->mode, info->value_class, info->bound_kind, why);
  if (has_kernels != H5L_OK) return has_kernels;
  if (const h5l_status status = check_batch(batch, info->value_bytes, why); status != H5L_OK) return status;
  const std::uint64_t count = batch->raw_bytes / info->value_bytes;
  if (info->raw_bytes != batch->raw_bytes) {
    return why.fail(H5L_INVALID_ARGUMENT, "raw_bytes of info is %llu, but that of the batch is %llu",
                    static_cast<unsigned long long>(info->raw_bytes),
                    static_cast<unsigned long long>(batch->raw_bytes));
  }
  if (first > count || values > count - first) {
    return why.fail(H5L_INVALID_ARGUMENT, "values from %llu on, %llu of them, were requested, but a frame holds %llu",
                    static_cast<unsigned long long>(first), static_cast<unsigned long long>(values),
                    static_cast<unsigned long long>(count));
  }
  FrameHeader header;
  header.codec = static_cast<std::uint8_t>(info->codec);
  header.value_class = static_cast<std::uint8_t>(info->value_class);
  header.value_bytes = static_cast<std::uint8_t>(info->value_bytes);
  header.big_endian = info->big_endian != 0;
  header.bound_kind = static_cast<std::uint8_t>(info->bound_kind);
  header.mode = static_cast<std::uint8_t>(info->mode);
  header.raw_bytes = static_cast<std::uint32_t>(info->raw_bytes);
  std::copy_n(info->dims, kMaxDims, header.dims);
  if (info->codec > 255 || info->mode > 255 || info->bound_kind > H5L_BOUND_NOISE) {
    return why.fail(H5L_INVALID_ARGUMENT, "codec %u, mode %u and bound kind %u do not exist in any frame", info->codec,
                    info->mode, info->bound_kind);
  }
  call = make_decode_call(header, first, values, batch->count);
  if (info->codec != H5L_CODEC_STORED && call.variant.shape.tiles == 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "codec %u, mode %u and these dims do not exist in any frame", info->codec,
                    info->mode);
  }
  return H5L_OK;
}

h5l_status failed(gpu::Device& device, const Message& why) {
  const std::string error = device.take_error();
  return why.fail(H5L_DEVICE_ERROR, "%s", error.empty() ? "the GPU cannot run this kernel" : error.c_str());
}

// Starts a call: launch(launcher) does it. If its kernels are wrong, leave(launcher) leaves its chunks to the host.
template <class Call, class Launch, class Leave>
h5l_status start(gpu::Device& device, const Call& call, void* stream, Launch launch, Leave leave, const Message& why) {
  const gpu::Current current(device);
  if (!current.ok()) return failed(device, why);
  bool is_captured = false;
  const gpu::Outcome outcome = run_checked(device, call, [&] {
    gpu::StreamLauncher launcher(device, stream);
    const bool is_started = launch(launcher);
    if (!launcher.lacks_kernel()) return is_started ? gpu::Outcome::done : gpu::Outcome::failed;
    is_captured = device.is_captured(stream);
    return is_captured ? gpu::Outcome::failed : gpu::Outcome::unchecked;
  });
  if (outcome == gpu::Outcome::done) return H5L_OK;
  if (is_captured) {
    return why.fail(H5L_DEVICE_ERROR,
                    "kernels of this call have not been loaded, which is not possible in the capture of a CUDA graph; "
                    "make one call of the same kind before it");
  }
  gpu::StreamLauncher launcher(device, stream);
  return outcome == gpu::Outcome::left && leave(launcher) ? H5L_OK : failed(device, why);
}

// The same for copies, which are not left to the host.
template <class Launch>
h5l_status start_copies(gpu::Device& device, const h5l_device_batch& batch, Launch launch, const Message& why) {
  bool is_wrong = false;
  const auto leave = [&](gpu::Launcher&) {
    is_wrong = true;
    return false;
  };
  const h5l_status status = start(device, CopyCall{}, batch.stream, launch, leave, why);
  if (!is_wrong) return status;
  return why.fail(
      H5L_DEVICE_ERROR,
      "the kernels that copy chunks, as NVRTC compiled them, give wrong results on this GPU; copy the array "
      "to the host");
}

// Copies chunks between an array and a batch.
template <class Copy>
h5l_status copy_chunks(const h5l_device_array* array, std::uint64_t first, const h5l_device_batch* batch,
                       h5l_message* message, Copy copy) {
  return guarded(message, [&](const Message& why) {
    if (array == nullptr || batch == nullptr || array->rank == 0 || array->rank > 8) {
      return why.fail(H5L_INVALID_ARGUMENT, "array and batch must not be null, and the rank must be 1 to 8");
    }
    gpu::ChunkPlan plan = {};
    std::uint64_t chunks = 1, values = 1;
    for (std::uint32_t i = 0; i < array->rank; ++i) {
      if (array->chunk[i] == 0 || array->shape[i] == 0) {
        return why.fail(H5L_INVALID_ARGUMENT, "extents must not be 0");
      }
      plan.strides[i] = array->strides[i];
      plan.extents[i] = array->shape[i];
      if (array->start[i] >= array->chunk[i]) {
        return why.fail(H5L_INVALID_ARGUMENT, "start must be less than the chunk's extent, got %u of %u on axis %u",
                        array->start[i], array->chunk[i], i);
      }
      plan.chunk[i] = array->chunk[i];
      plan.start[i] = array->start[i];
      chunks *= (array->start[i] + array->shape[i] + array->chunk[i] - 1) / array->chunk[i];
      values *= array->chunk[i];
      if (values > kMaxRawBytes) return why.fail(H5L_INVALID_ARGUMENT, "a chunk has at most %zu bytes", kMaxRawBytes);
    }
    if (const h5l_status status = check_batch(batch, array->value_bytes, why); status != H5L_OK) return status;
    if (batch->raw_bytes != values * array->value_bytes || first > chunks || batch->count > chunks - first) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "the array has %llu chunks of %llu bytes; %u chunks from number %llu on are out of range",
                      static_cast<unsigned long long>(chunks),
                      static_cast<unsigned long long>(values) * array->value_bytes, batch->count,
                      static_cast<unsigned long long>(first));
    }
    gpu::Device* device = nullptr;
    if (const h5l_status status = open_device(array->data, device, why); status != H5L_OK) return status;
    plan.array = static_cast<std::uint8_t*>(array->data);
    plan.rank = array->rank;
    plan.value_bytes = array->value_bytes;
    plan.first_chunk = first;
    plan.chunks = batch->count;
    plan.chunk_values = static_cast<std::uint8_t*>(batch->raw);
    plan.chunk_stride = batch->raw_stride;
    plan.padding = array->padding;
    return start_copies(*device, *batch, [&](gpu::Launcher& launcher) { return copy(launcher, plan); }, why);
  });
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

void h5l_get_counts(h5l_counts* counts) {
  if (counts == nullptr) return;
  const Counts all = h5lossy::counts();
  *counts = {all.cpu[0], all.cpu[1], all.gpu[0], all.gpu[1]};
}

int h5l_device_at(uint32_t i, h5l_device* device) {
  if (device == nullptr) return 0;
  *device = {};
  bool exists = false;
  guarded(nullptr, [&](const Message&) {
    std::string why;
    exists = i < static_cast<std::uint32_t>(gpu::Device::count(why));
    if (!exists) return H5L_OK;
    if (const gpu::Device* const opened = gpu::Device::open(static_cast<int>(i), why); opened != nullptr) {
      copy(opened->name(), device->name);
      copy(opened->how(), device->kernels);
    } else {
      copy(why, device->problem);
    }
    return H5L_OK;
  });
  return exists ? 1 : 0;
}

size_t h5l_describe_device_selection(char* text, size_t capacity) {
  std::string described;
  guarded(nullptr, [&](const Message&) {
    described = describe_device_selection();
    return H5L_OK;
  });
  if (capacity != 0 && text != nullptr) {
    const std::size_t size = std::min(described.size(), capacity - 1);
    std::memcpy(text, described.data(), size);
    text[size] = 0;
  }
  return described.size();
}

double h5l_gpu_speedup(uint32_t codec, int decode) {
  double speedup = 0;
  guarded(nullptr, [&](const Message&) {
    speedup = gpu_speedup(decode != 0 ? Direction::decode : Direction::encode, codec);
    return H5L_OK;
  });
  return speedup;
}

int h5l_has_kernels(uint32_t codec, uint32_t mode, uint32_t value_class, uint32_t bound_kind, int decode) {
  const Direction direction = decode != 0 ? Direction::decode : Direction::encode;
  if (!has_kernels(direction, codec, mode, value_class, bound_kind)) return 0;
  const CodecEntry* const entry = codec_entry(codec);
  return decode != 0 && entry != nullptr && entry->codec->layout_bits != 0 ? 2 : 1;
}

int h5l_device_of(const void* pointer) {
  int ordinal = -1;
  guarded(nullptr, [&](const Message&) {
    ordinal = gpu::Device::of_pointer(pointer);
    return H5L_OK;
  });
  return ordinal;
}

h5l_status h5l_device_encode_workspace(const h5l_params* params, const h5l_device_batch* batch, uint64_t* bytes,
                                       h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    gpu::EncodeCall call;
    if (bytes == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "bytes must not be null");
    if (const h5l_status status = make_call(params, batch, call, why); status != H5L_OK) return status;
    *bytes = gpu::encode_workspace_bytes(call);
    return H5L_OK;
  });
}

h5l_status h5l_device_encode(const h5l_params* params, const h5l_device_batch* batch, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    gpu::EncodeCall call;
    if (const h5l_status status = make_call(params, batch, call, why); status != H5L_OK) return status;
    const std::uint64_t workspace = gpu::encode_workspace_bytes(call);
    if (const h5l_status status = check_memory(*batch, params->value_bytes, workspace, why); status != H5L_OK) {
      return status;
    }
    if (batch->frame_stride < batch->raw_bytes + kHeaderBytes && batch->count > 1) {
      return why.fail(H5L_OUTPUT_TOO_SMALL, "a frame needs room for %llu bytes, frame_stride is %llu",
                      static_cast<unsigned long long>(batch->raw_bytes) + kHeaderBytes,
                      static_cast<unsigned long long>(batch->frame_stride));
    }
    gpu::Device* device = nullptr;
    if (const h5l_status status = open_device(batch->raw, device, why); status != H5L_OK) return status;
    call.plan.encode.raw = static_cast<const std::uint8_t*>(batch->raw);
    call.plan.encode.raw_stride = batch->raw_stride;
    call.plan.encode.frames = static_cast<std::uint8_t*>(batch->frames);
    call.plan.encode.frame_stride = batch->frame_stride;
    call.plan.frame_bytes = reinterpret_cast<u64*>(batch->frame_bytes);
    return start(
        *device, call, batch->stream,
        [&](gpu::Launcher& launcher) {
          return gpu::encode(launcher, call, static_cast<std::uint8_t*>(batch->workspace));
        },
        [&](gpu::Launcher& launcher) {
          return launcher.clear(batch->frame_bytes, sizeof(std::uint64_t) * std::size_t{batch->count});
        },
        why);
  });
}

h5l_status h5l_device_decode_workspace(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t* bytes,
                                       h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    gpu::DecodeCall call;
    if (bytes == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "bytes must not be null");
    const bool has_values = info != nullptr && batch != nullptr && info->value_bytes != 0;
    const std::uint64_t values = has_values ? batch->raw_bytes / info->value_bytes : 0;
    if (const h5l_status status = make_call(info, batch, 0, values, call, why); status != H5L_OK) return status;
    *bytes = gpu::decode_workspace_bytes(call);
    return H5L_OK;
  });
}

h5l_status h5l_device_decode(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t first, uint64_t values,
                             uint32_t* statuses, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    gpu::DecodeCall call;
    if (const h5l_status status = make_call(info, batch, first, values, call, why); status != H5L_OK) return status;
    const std::uint64_t workspace = gpu::decode_workspace_bytes(call);
    if (const h5l_status status = check_memory(*batch, info->value_bytes, workspace, why); status != H5L_OK) {
      return status;
    }
    if (statuses == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "statuses must not be null");
    gpu::Device* device = nullptr;
    if (const h5l_status status = open_device(batch->raw, device, why); status != H5L_OK) return status;
    call.frame = static_cast<const std::uint8_t*>(batch->frames);
    call.frame_stride = batch->frame_stride;
    call.frame_bytes = reinterpret_cast<const u64*>(batch->frame_bytes);
    call.raw = static_cast<std::uint8_t*>(batch->raw);
    call.raw_stride = batch->raw_stride;
    call.statuses = statuses;
    return start(
        *device, call, batch->stream,
        [&](gpu::Launcher& launcher) {
          return gpu::decode(launcher, call, static_cast<std::uint8_t*>(batch->workspace));
        },
        [&](gpu::StreamLauncher& launcher) {
          return launcher.fill(statuses, static_cast<std::uint32_t>(gpu::DecodeStatus::other), batch->count);
        },
        why);
  });
}

h5l_status h5l_device_pack(const h5l_device_batch* batch, void* packed, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (batch == nullptr || batch->frames == nullptr || batch->frame_bytes == nullptr || packed == nullptr) {
      return why.fail(H5L_INVALID_ARGUMENT, "batch, frames, frame_bytes and packed must not be null");
    }
    if (batch->count == 0 || batch->count > 65535) {
      return why.fail(H5L_INVALID_ARGUMENT, "a batch has 1 to 65535 chunks, got %u", batch->count);
    }
    if (!is_aligned(batch->frames, 16) || batch->frame_stride % 16 != 0 || !is_aligned(packed, 16) ||
        !is_aligned(batch->frame_bytes, 8)) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "frames, frame_stride and packed must be multiples of 16, frame_bytes of 8 bytes");
    }
    gpu::Device* device = nullptr;
    if (const h5l_status status = open_device(packed, device, why); status != H5L_OK) return status;
    const gpu::PackPlan plan = {static_cast<const std::uint8_t*>(batch->frames), batch->frame_stride,
                                reinterpret_cast<const u64*>(batch->frame_bytes), static_cast<std::uint8_t*>(packed)};
    return start_copies(
        *device, *batch,
        [&](gpu::Launcher& launcher) { return gpu::pack(launcher, plan, batch->count, batch->raw_bytes); }, why);
  });
}

h5l_status h5l_device_gather(const h5l_device_array* array, uint64_t first, const h5l_device_batch* batch,
                             h5l_message* message) {
  return copy_chunks(array, first, batch, message, gpu::gather);
}

h5l_status h5l_device_scatter(const h5l_device_array* array, uint64_t first, const h5l_device_batch* batch,
                              h5l_message* message) {
  return copy_chunks(array, first, batch, message, gpu::scatter);
}

}  // extern "C"

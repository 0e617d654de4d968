// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Kernels that were just compiled are used only after their results were the CPU's. The GPU is that of fake_gpu.cpp,
// whose kernels give right results unless a test names one whose results are wrong. A process for each case, since
// devices live as long as the process.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "chunk/decode.h"
#include "chunk/encode.h"
#include "chunk/open_frame.h"
#include "chunk/params.h"
#include "frames.h"
#include "h5lossy_device.h"
#include "methods.h"
#include "offload/check_chunks.h"
#include "offload/gpu_requests.h"
#include "offload/kernel_check.h"

namespace h5lossy::test {
namespace {

template <class T>
T& fake(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(driver != nullptr, "%s", dlerror());
  return *static_cast<T*>(dlsym(driver, name));
}

void make_wrong(const char* kernel) { std::strcpy(&fake<char>("fake_wrong_kernel"), kernel); }

std::string cache() { return std::getenv("H5LOSSY_CACHE_DIR"); }

// Whether the cache holds a kernel.
bool is_kept(const std::string& kernel) {
  const std::filesystem::path folder = cache();
  return std::filesystem::exists(folder) &&
         std::any_of(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator(),
                     [&](const auto& file) { return file.path().filename().string().starts_with(kernel + "-"); });
}

template <class T>
Bytes some_values(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(20 + 10 * std::sin(static_cast<double>(i) / 50));
  Bytes bytes(count * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A chunk, and what the CPU makes of it.
struct Case {
  h5l_params params;
  Bytes raw, frame, decoded;
  explicit Case(std::uint32_t value_bytes, std::uint32_t codec = H5L_CODEC_PFPL)
      : params(make_params(H5L_BOUND_ABSOLUTE, 1e-3, value_bytes)),
        raw(value_bytes == 4 ? some_values<float>(30000) : some_values<double>(30000)),
        frame(raw.size() + kHeaderBytes),
        decoded(raw.size()) {
    params.codec = codec;
    std::size_t size = 0;
    CHECK(encode_chunk(params, raw, frame, size, Message(nullptr)) == H5L_OK, "%u bytes", value_bytes);
    frame.resize(size);
    Frame opened;
    CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "%zu bytes", size);
    CHECK(decode_chunk(opened, decoded, Message(nullptr)) == H5L_OK, "%zu bytes", size);
  }
  void check_encoding() const { CHECK(encode(params, raw) == frame, "%u bytes", params.value_bytes); }
  void check_decoding() const { CHECK(decode(frame) == decoded, "%u bytes", params.value_bytes); }
};

h5l_counts counts() {
  h5l_counts all;
  h5l_get_counts(&all);
  return all;
}

// What is printed on stderr meanwhile.
template <class Function>
std::string printed(Function function) {
  const std::string path = cache() + ".stderr";
  const int before = dup(2), file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  dup2(file, 2);
  function();
  dup2(before, 2);
  close(before), close(file);
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t lines_with(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Whatever a call is, the chunks of the check take all of its kernels.
void check_lists() {
  std::size_t checked = 0;
  const auto check = [&](const char* name, const h5l_params& params, const auto& call) {
    std::vector<std::string> covered;
    for (const CheckRequest& request : check_requests(call)) {
      covered.insert(covered.end(), request.kernels.begin(), request.kernels.end());
    }
    for (const std::string& kernel : gpu::kernels_of(call)) {
      ++checked;
      CHECK(std::find(covered.begin(), covered.end(), kernel) != covered.end(), "%s: %s of class %u, %u bytes, kind %u",
            name, kernel.c_str(), params.value_class, params.value_bytes, params.bound_kind);
    }
  };
  for (const Method& method : methods_and_auto()) {
    for (std::uint32_t value_class = 0; value_class <= H5L_CLASS_COMPLEX; ++value_class) {
      for (const std::uint32_t value_bytes : {1, 2, 4, 8}) {
        for (std::uint32_t kind = 0; kind <= H5L_BOUND_NOISE; ++kind) {
          for (const std::vector<std::uint32_t>& extents :
               std::vector<std::vector<std::uint32_t>>{{}, {3000}, {50, 60}, {10, 20, 15}, {5, 4, 10, 15}}) {
            h5l_params params = make_params(method, kind, kind == H5L_BOUND_LOSSLESS ? 0 : 0.5, value_bytes);
            params.value_class = value_class;
            params.big_endian = value_bytes > 1 && extents.size() == 2 ? 1 : 0;
            if (value_class == H5L_CLASS_COMPLEX && !extents.empty()) continue;
            set_shape(params, extents);
            if (check_params(params, Message(nullptr)) != H5L_OK) continue;
            const Bytes raw(3000 * value_bytes);
            if (has_kernels(Direction::encode, params.codec, params.mode, value_class, kind)) {
              check(method.name.c_str(), params, make_encode_call(params, raw.size(), 1));
            }
            const Bytes frame =
                encode(params, value_bytes == 8 ? some_values<double>(3000) : some_values<float>(750 * value_bytes));
            Frame opened;
            CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "%zu bytes", frame.size());
            const FrameHeader& header = opened.header;
            if (header.codec == H5L_CODEC_STORED ||
                !has_kernels(Direction::decode, header.codec, header.mode, header.value_class, header.bound_kind)) {
              continue;
            }
            for (const std::size_t wanted : {header.raw_bytes / value_bytes, 0u}) {
              check(method.name.c_str(), params, make_decode_call(header, 0, wanted, 1));
            }
          }
        }
      }
    }
  }
  CHECK(checked > 1000, "%zu kernels", checked);
}

// Many threads come at once; later calls, and later processes, find kernels that were checked.
void check_right_kernels() {
  const Case floats(4), doubles(8);
  const auto encode_all = [&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) threads.emplace_back([&, i] { (i % 4 == 0 ? doubles : floats).check_encoding(); });
    for (std::thread& thread : threads) thread.join();
  };
  encode_all();
  CHECK(counts().gpu_encoded == 16 && counts().cpu_encoded == 0, "%llu",
        static_cast<unsigned long long>(counts().gpu_encoded));
  CHECK(fake<int>("fake_compiled") == 3, "%d kernels", fake<int>("fake_compiled"));
  for (const char* const kernel : {"pfpl_encode_f32_absolute", "pfpl_encode_f64_absolute", "finish_frames"}) {
    CHECK(is_kept(kernel), "%s", kernel);
  }
  int before = fake<int>("fake_launched");
  CHECK(before > 32, "%d launches: not checked", before);
  encode_all();
  CHECK(fake<int>("fake_launched") == before + 32, "%s", "checked again");
  floats.check_decoding();
  CHECK(counts().gpu_decoded == 1 && is_kept("open_frames"), "%s", "decoded by the CPU");
  // The next process.
  int status = 0;
  if (const pid_t child = fork(); child == 0) {
    execl("/proc/self/exe", "kernels_are_checked", "cached", nullptr);
  } else {
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
  }
}

void check_cached_kernels() {
  const Case floats(4);
  floats.check_encoding(), floats.check_decoding();
  CHECK(counts().gpu_encoded == 1 && counts().gpu_decoded == 1, "%s", "the CPU did it");
  CHECK(fake<int>("fake_compiled") == 0 && fake<int>("fake_launched") == 5, "%d compiled, %d launched",
        fake<int>("fake_compiled"), fake<int>("fake_launched"));
}

// Frames are decoded by processes that have loaded no other kernels, one for each set of kernels: some frames of a check
// are another codec's, or stored, and take kernels that its own frames do not take.
void check_each_alone() {
  std::vector<gpu::Names> seen;
  for (const Method& method : methods_and_auto()) {
    for (const std::uint32_t rank : {1, 2, 3}) {
      h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, 0, 4);
      set_check_type(params, H5L_CLASS_FLOAT, 4, rank);
      const Bytes raw = make_check_chunk(params, Field::smooth);
      Bytes frame(raw.size() + kHeaderBytes);
      std::size_t size = 0;
      CHECK(encode_chunk(params, raw, frame, size, Message(nullptr)) == H5L_OK, "%s", method.name.c_str());
      frame.resize(size);
      Frame opened;
      CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "%s", method.name.c_str());
      const gpu::Names kernels = gpu::kernels_of(make_decode_call(opened.header, 0, raw.size() / 4, 1));
      if (std::find(seen.begin(), seen.end(), kernels) != seen.end()) continue;
      seen.push_back(kernels);
      int status = 0;
      if (const pid_t child = fork(); child == 0) {
        setenv("H5LOSSY_CACHE_DIR", (cache() + "/" + std::to_string(seen.size())).c_str(), 1);
        decode(frame);
        CHECK(counts().gpu_decoded == 1, "%s, %u axes: decoded by the CPU", method.name.c_str(), rank);
        std::_Exit(0);
      } else {
        CHECK(waitpid(child, &status, 0) == child && status == 0, "%s: status %d", method.name.c_str(), status);
      }
    }
  }
  CHECK(seen.size() > 5, "%zu sets of kernels", seen.size());
}

// The CPU does the work of kernels whose results are wrong, and of no others.
void check_wrong_kernels() {
  const Case floats(4), doubles(8);
  for (const char* const kernel : {"pfpl_encode_f32_absolute", "pfpl_decode_f32_absolute"}) {
    make_wrong(kernel);
    const h5l_counts before = counts();
    const bool encodes = std::strstr(kernel, "encode") != nullptr;
    const std::string said = printed([&] {
      for (int i = 0; i < 3; ++i) encodes ? floats.check_encoding() : floats.check_decoding();
    });
    CHECK(lines_with(said, "wrong results") == 1 && lines_with(said, kernel) == 1 &&
              lines_with(said, "Fake GPU") == 1 && lines_with(said, "NVRTC 13.0") >= 1,
          "%s", said.c_str());
    CHECK(counts().cpu_encoded + counts().cpu_decoded == before.cpu_encoded + before.cpu_decoded + 3 &&
              counts().gpu_encoded + counts().gpu_decoded == before.gpu_encoded + before.gpu_decoded,
          "%s", "not the CPU");
    CHECK(!is_kept(kernel), "%s was kept", kernel);
    char described[1000];
    h5l_describe_device_selection(described, sizeof described);
    CHECK(std::strstr(described, kernel) != nullptr, "%s", described);
  }
  // Those of the other type, which share a kernel with them, are right.
  doubles.check_encoding(), doubles.check_decoding();
  CHECK(counts().gpu_encoded == 1 && counts().gpu_decoded == 1, "%s", "not the GPU");
  CHECK(is_kept("pfpl_encode_f64_absolute") && is_kept("finish_frames") && is_kept("open_frames"), "%s", "not kept");
}

// Batches in the GPU's memory, which is the host's here.
struct DeviceCase : Case {
  Bytes frames = Bytes(raw.size() + 64), values = Bytes(raw.size());
  std::uint64_t size = 77;
  std::uint32_t status = 77;
  std::vector<std::uint64_t> workspace = std::vector<std::uint64_t>(1 << 20);
  h5l_device_batch batch = {};
  DeviceCase() : Case(4) {
    batch = {1,       0,      raw.size(), raw.data(), raw.size(), frames.data(), frames.size(), &size, workspace.data(),
             8 << 20, nullptr};
  }
  h5l_status encode_batch(h5l_message* message = nullptr) { return h5l_device_encode(&params, &batch, message); }
  h5l_status decode_batch() {
    const h5l_frame_info info = inspect(frame);
    std::copy(frame.begin(), frame.end(), frames.begin());
    size = frame.size();
    batch.raw = values.data();
    return h5l_device_decode(&info, &batch, 0, raw.size() / 4, &status, nullptr);
  }
  h5l_status gather(Bytes& chunks) {
    h5l_device_array array = {};
    array.data = raw.data();
    array.value_bytes = 4;
    array.rank = 1;
    array.strides[0] = 4;
    array.shape[0] = 1000;
    array.chunk[0] = 100;
    batch.count = 10;
    batch.raw_bytes = batch.raw_stride = 400;
    batch.raw = chunks.data();
    return h5l_device_gather(&array, 0, &batch, nullptr);
  }
};

void check_copies() {
  DeviceCase device;
  Bytes chunks(4000);
  CHECK(device.gather(chunks) == H5L_OK && std::equal(chunks.begin(), chunks.end(), device.raw.begin()), "%s",
        "gather");
  CHECK(is_kept("gather_chunks") && is_kept("scatter_chunks") && is_kept("pack_frames"), "%s", "not kept");
}

// Kernels that are right pass, and each passes with some call.
void check_all_kernels() {
  const auto run = [](h5l_params params) {
    const std::size_t count = count_check_values(params);
    const Bytes raw =
        params.value_bytes == 8 ? some_values<double>(count) : some_values<float>(count * params.value_bytes / 4);
    const Bytes frame = encode(params, raw);
    decode(frame);
  };
  for (const Method& method : methods_and_auto()) {
    for (const std::uint32_t kind :
         {H5L_BOUND_ABSOLUTE, H5L_BOUND_POINTWISE_RELATIVE, H5L_BOUND_RANGE_RELATIVE, H5L_BOUND_LOSSLESS}) {
      for (const std::uint32_t value_class : {H5L_CLASS_FLOAT, H5L_CLASS_UNSIGNED, H5L_CLASS_SIGNED}) {
        for (const std::uint32_t value_bytes : {1, 2, 4, 8}) {
          for (const std::uint32_t rank : {1, 2, 3}) {
            h5l_params params = make_params(method, kind, 0, value_bytes);
            params.big_endian = value_class == H5L_CLASS_FLOAT && rank == 2 ? 1 : 0;
            set_check_type(params, value_class, value_bytes, rank);
            for (std::uint32_t axis = 0; axis < rank; ++axis) params.shape[axis] = 16;
            if (check_params(params, Message(nullptr)) == H5L_OK) run(params);
          }
        }
      }
    }
  }
  check_copies();
#define H5L_KERNEL(name, ...) CHECK(is_kept(#name), "%s", #name);
#include "kernels/codecs/all.def"
#include "kernels/common/kernels.def"
#undef H5L_KERNEL
}

void check_wrong_copies() {
  DeviceCase device;
  make_wrong("pack_frames");
  Bytes chunks(4000);
  CHECK(device.gather(chunks) == H5L_DEVICE_ERROR, "%s", "a kernel beside a wrong one was used");
  CHECK(!is_kept("gather_chunks"), "%s", "kept");
}

// Wrong kernels leave the chunks of a batch to the host.
void check_wrong_batches() {
  DeviceCase device;
  make_wrong("pfpl_encode_f32_absolute");
  CHECK(device.encode_batch() == H5L_OK && device.size == 0, "%llu bytes",
        static_cast<unsigned long long>(device.size));
  make_wrong("open_frames");
  CHECK(device.decode_batch() == H5L_OK && device.status == 2, "status %u", device.status);
  check_wrong_copies();
}

// The first call is refused in a capture; the next one outside does it all.
void check_capture() {
  DeviceCase device;
  h5l_message message;
  fake<int>("fake_is_captured") = 1;
  CHECK(device.encode_batch(&message) == H5L_DEVICE_ERROR && std::strstr(message.text, "capture") != nullptr, "%s",
        message.text);
  CHECK(fake<int>("fake_launched") == 0, "%s", "launched in a capture");
  fake<int>("fake_is_captured") = 0;
  CHECK(device.encode_batch() == H5L_OK && device.size == device.frame.size(), "%llu bytes",
        static_cast<unsigned long long>(device.size));
  const int before = fake<int>("fake_launched");
  fake<int>("fake_is_captured") = 1;
  CHECK(device.encode_batch() == H5L_OK && fake<int>("fake_launched") == before + 2, "%s", "not captured");
  CHECK(std::equal(device.frame.begin(), device.frame.end(), device.frames.begin()), "%s", "another frame");
}

// Without memory there is no check, and the next call tries again.
void check_memory() {
  const Case floats(4);
  DeviceCase device;
  fake<int>("fake_fails_to_allocate") = 1;
  const std::string said = printed([&] { floats.check_encoding(); });
  CHECK(lines_with(said, "wrong") == 0 && lines_with(said, "the CPU does the work") == 1, "%s", said.c_str());
  CHECK(device.encode_batch() == H5L_DEVICE_ERROR && !is_kept("finish_frames"), "%s", "used without a check");
  fake<int>("fake_fails_to_allocate") = 0;
  floats.check_encoding();
  CHECK(counts().gpu_encoded == 1 && counts().cpu_encoded == 1 && is_kept("finish_frames"), "%s", "not the GPU");
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  const std::string which = count > 1 ? arguments[1] : "";
  if (which == "cached") return check_cached_kernels(), 0;
  char folder[] = "/tmp/h5lossy-checked-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr, "no folder");
  setenv("H5LOSSY_CACHE_DIR", folder, 1);
  if (which == "lists") setenv("H5LOSSY_DEVICE", "cpu", 1), check_lists();
  if (which == "all") check_all_kernels();
  if (which == "right") check_right_kernels();
  if (which == "alone") check_each_alone();
  if (which == "wrong") check_wrong_kernels();
  if (which == "batches") check_wrong_batches();
  if (which == "copies") check_copies();
  if (which == "capture") check_capture();
  if (which == "memory") check_memory();
  std::filesystem::remove_all(folder);
  std::filesystem::remove(std::string(folder) + ".stderr");
}

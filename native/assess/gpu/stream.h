// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Runs the assessment on a stream of a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assess/gpu/sequences.h"
#include "gpu/device.h"

namespace h5lossy::gpu {

class AssessStream : public AssessDevice {
 public:
  // Opens a stream of the GPU that holds `values`. Null, with the reason in `why`, if that fails.
  static std::unique_ptr<AssessStream> open(const void* values, std::string& why);
  ~AssessStream() override;
  AssessStream(const AssessStream&) = delete;
  AssessStream& operator=(const AssessStream&) = delete;

  Launcher& launcher() override { return launcher_; }
  std::uint8_t* reserve(std::size_t bytes) override;
  bool download(void* to, const void* from, std::size_t bytes) override;
  void then(std::function<void()> function) override { after_copies_.push_back(std::move(function)); }
  bool wait() override;
  [[nodiscard]] std::string error() const override;

 private:
  explicit AssessStream(Device& device);
  bool start_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes);
  struct Copy {
    void* to;
    std::size_t at, bytes;  // in pinned memory
  };

  Device& device_;
  Current current_;
  BorrowedStream buffers_;
  bool is_ready_;
  StreamLauncher launcher_;
  std::vector<Copy> copies_;
  std::vector<std::function<void()>> after_copies_;
  std::size_t pinned_used_ = 0;
};

}  // namespace h5lossy::gpu

// For tests of CUDA devices: a fixture with a device of the fake driver of tests/runtime/fake_cuda/, and a module of
// its kernels. Header-only.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/device_module.h"
#include "tests/runtime/c_artifact.h"

namespace autotune {

class Cuda : public ::testing::Test {
 protected:
  static constexpr const char* kPtx =
      ".version 8.0\n.target sm_80\n.entry shift\n.entry shift_prepare\n.entry reversed\n.entry twice\n"
      ".entry illegal\n.entry unknown\n.entry bit_flip\n.entry thrice\n";

  static Tensor Ramp(std::vector<int64_t> shape, float start = 0) {
    Tensor tensor = Tensor::Zeros(std::move(shape), "f32").value();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Data<float>()[i] = start + static_cast<float>(i);
    return tensor;
  }

  static DeviceCode Code(std::string image = kPtx, std::string format = "ptx") {
    constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
    DeviceCode code{.format = std::move(format), .image = std::move(image)};
    const std::vector<std::string> axes = {"blockIdx.x", "threadIdx.x"};
    for (const char* name :
         {"shift_prepare", "reversed", "twice", "thrice", "illegal", "unknown", "bit_flip", "nowhere"})
      code.functions[name] = {{kAddress, kAddress}, axes};
    code.functions["shift"] = {{kAddress, kAddress, kAddress}, axes};
    return code;
  }

  void SetUp() override {
    setenv("AUTOTUNE_LIBCUDA", AUTOTUNE_BINARY_DIR "/tests/fake_cuda/libcuda.so.1", 1);
    Restart("");
  }
  // Restarts the driver with the settings `words` (tests/runtime/fake_cuda/driver.cc) and a new log of calls.
  void Restart(const std::string& words) {
    static int number = 0;
    device_.reset();
    log_ = TempDir() + "/cuda" + std::to_string(++number) + ".log";
    setenv("FAKE_CUDA", ("log=" + log_ + " " + words).c_str(), 1);
    device_ = OpenDevice({kDLCUDA, 0}).value();
  }
  // Returns how often the driver function `call` was called. `call` may include arguments.
  int Calls(const std::string& call) const {
    std::ifstream in(log_);
    int count = 0;
    for (std::string line; std::getline(in, line);) count += line == call || line.starts_with(call + " ");
    return count;
  }
  // Calls `name` with eight elements, as one launch of `code`, and waits for the end.
  Status Call(const DeviceCode& code, const std::string& name) {
    Tensor x = TRY(ToDevice(Ramp({8}), device_)), y = TRY(ToDevice(Ramp({8}), device_));
    TRY(TRY(MakeDeviceModule("cuda", code)->GetFunction(name))(x, y, 1, 8));
    return device_->Synchronize();
  }
  std::string ErrorOf(const DeviceCode& code, const std::string& name) {
    Status status = Call(code, name);
    return status.ok() ? "" : status.error().Text();
  }

  std::string log_;
  DevicePtr device_;
};

}  // namespace autotune

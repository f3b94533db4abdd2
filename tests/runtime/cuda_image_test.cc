// Libraries for NVIDIA's GPUs with PTX and machine code, on the fake driver of tests/runtime/fake_cuda/, whose GPU is
// an sm_90.
#include <gmock/gmock.h>

#include <fstream>

#include "runtime/bound_kernel.h"
#include "runtime/kernel_context.h"
#include "runtime/module_blob.h"
#include "tests/runtime/cuda.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLibraryPtx = ".version 8.0\n.target sm_80\n.entry twice\n.entry thrice\n";

class CudaImages : public Cuda {
 protected:
  // Returns the formats of the images that the driver got, in order.
  std::vector<std::string> Loaded() const {
    std::vector<std::string> formats;
    std::ifstream in(log_);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("cuModuleLoadDataEx ")) formats.push_back(line.substr(19));
    }
    return formats;
  }
  // Returns a library with the kernels "twice" and "thrice". It imports a module for each image; an image that is no
  // PTX is machine code.
  Module Library(const std::vector<std::string>& images) {
    std::string kernels;
    for (const std::string name : {"twice", "thrice"}) {
      kernels += std::string(kernels.empty() ? "" : ",") + R"({"name":")" + name +
                 R"(","device":"cuda","params":[{"name":"x","dtype":"f32","shape":[8],"kind":"input"},
                 {"name":"y","dtype":"f32","shape":[8],"kind":"output"}],"launches":[{"entry":")" +
                 name + R"(","grid":[1],"block":[8],"args":[{"kind":"param","index":0},{"kind":"param","index":1}]}]})";
    }
    const std::string metadata = R"({"abi_version":1,"target":"test","kernels":[)" + kernels + "]}";
    Module root = MakeLibraryModule(Artifact::FromBytes(CompileArtifact(metadata, "")).value(),
                                    std::make_shared<KernelContext>(1));
    constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
    for (const std::string& image : images) {
      DeviceCode code{.format = image == kLibraryPtx ? "ptx" : "cubin", .image = image};
      for (const char* name : {"twice", "thrice"}) code.functions[name] = {{kAddress, kAddress}, {}};
      CHECK(root->Import(MakeDeviceModule("cuda", std::move(code))).ok());
    }
    return root;
  }
  // Runs a kernel of the library on 3 and returns the result.
  Result<float> Run(const Module& library, const std::string& kernel) {
    auto bound = TRY(library->BindKernel(kernel, device_));
    Tensor x = TRY(Tensor::Zeros({8}, "f32"));
    x.Data<float>()[0] = 3;
    const Tensor far = TRY(ToDevice(x, device_)), y = TRY(ToDevice(x, device_));
    void* args[] = {far.data(), y.data()};
    TRY(bound->Run(args));
    return TRY(ToHost(y)).Data<float>()[0];
  }
};

TEST_F(CudaImages, AreLoadedOnceForAllKernels) {
  const Module library = Library({kLibraryPtx});
  EXPECT_EQ(Run(library, "twice").value(), 6);
  EXPECT_EQ(Run(library, "thrice").value(), 9);
  EXPECT_THAT(Loaded(), ElementsAre("ptx"));
}

TEST_F(CudaImages, MachineCodeThatFitsNeedsNoTranslation) {
  for (const auto& images : {std::vector<std::string>{kLibraryPtx, "CUBIN sm_90 .entry twice .entry thrice"},
                             std::vector<std::string>{"CUBIN sm_90 .entry twice .entry thrice", kLibraryPtx}}) {
    Restart("");
    const Module library = Library(images);
    EXPECT_EQ(Run(library, "twice").value(), 6);
    EXPECT_EQ(Run(library, "thrice").value(), 9);
    EXPECT_THAT(Loaded(), ElementsAre("cubin"));
  }
}

TEST_F(CudaImages, WhereMachineCodeDoesNotFitPtxDoes) {
  for (const std::string other : {"CUBIN sm_80 .entry twice .entry thrice",
                                  "\x7f"
                                  "ELF of another kind"}) {
    Restart("");
    const Module library = Library({kLibraryPtx, other});
    EXPECT_EQ(Run(library, "twice").value(), 6);
    EXPECT_THAT(Loaded(), ElementsAre("cubin", "ptx"));
    EXPECT_TRUE(device_->LastError().ok());
    EXPECT_THAT(Run(Library({other}), "twice").error().Text(), HasSubstr("this cubin is not for sm_90"));
  }
}

TEST_F(CudaImages, AFailedDeviceIsNoMisfit) {
  Restart("fail=cuModuleLoadDataEx:719:1");
  const Module library = Library({kLibraryPtx, "CUBIN sm_90 .entry twice .entry thrice"});
  EXPECT_THAT(Run(library, "twice").error().Text(), HasSubstr("loading an image failed: CUDA error 719"));
  EXPECT_THAT(Loaded(), ElementsAre("cubin"));
}

}  // namespace
}  // namespace autotune

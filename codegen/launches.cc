#include "codegen/launches.h"

#include "codegen/codegen.h"
#include "codegen/cuda_image.h"
#include "codegen/walk.h"
#include "lower/passes.h"
#include "runtime/device_module.h"
#include "runtime/module_blob.h"
#include "support/check.h"

namespace autotune {
namespace {

constexpr int64_t kMostBlocks[] = {(int64_t{1} << 31) - 1, 65535, 65535};  // limits of CUDA, along x, y and z

// Sets the grid and the block of a launch from the loops at the top of a kernel.
void ReadGeometry(const Stmt& kernel, Launch& launch) {
  launch.grid = {1, 1, 1};
  launch.block = {1, 1, 1};
  Walk(kernel, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (!loop || !IsBound(loop->kind)) return true;
    const int axis = static_cast<int>(loop->kind) - static_cast<int>(LoopKind::kBlockX);
    (axis < 3 ? launch.grid[axis] : launch.block[axis - 3]) = *AsInt(loop->extent);
    return true;
  });
}

// Splits a function into its kernels of threads, in order.
class Splitter {
 public:
  Splitter(const PrimFunc& f, std::string stem, size_t params, const Target& target)
      : f_(f), stem_(std::move(stem)), params_(params), target_(target), workspace_(LayOut(f.body)) {}

  int64_t workspace_bytes() const { return workspace_.bytes; }

  Result<std::vector<KernelFunction>> Run() {
    TRY(Visit(f_.body));
    return std::move(kernels_);
  }

 private:
  Status Visit(const Stmt& s) {
    if (const Alloc* alloc = s.As<Alloc>(); alloc && alloc->buffer->scope == Scope::kGlobal) return Visit(alloc->body);
    if (const Seq* seq = s.As<Seq>()) {
      for (const Stmt& child : seq->stmts) TRY(Visit(child));
      return {};
    }
    const For* loop = s.As<For>();
    if (!loop || !IsBound(loop->kind)) return Err("a statement of ", f_.name, " belongs to no kernel of threads");
    return Add(s);
  }

  Status Add(const Stmt& s) {
    KernelFunction kernel;
    kernel.body = s;
    kernel.launch.entry = stem_ + "_" + std::to_string(kernels_.size());
    ReadGeometry(s, kernel.launch);
    TRY(CheckLimits(s, kernel.launch));
    std::set<Name> own;
    Status misplaced;
    Walk(s, [&](const Stmt& x) {
      const Alloc* alloc = x.As<Alloc>();
      if (!alloc) return true;
      own.insert(alloc->buffer->name);
      if (alloc->buffer->scope == Scope::kGlobal)
        misplaced = Err("buffer ", alloc->buffer->name, " is allocated within a kernel, but has scope global");
      return true;
    });
    TRY(misplaced);
    for (const auto& [name, use] : UsesOf(s).buffers) {
      if (own.contains(name)) continue;
      kernel.launch.args.push_back(ArgOf(name));
      kernel.pointers.push_back(use);
    }
    kernels_.push_back(std::move(kernel));
    return {};
  }

  Status CheckLimits(const Stmt& s, const Launch& launch) const {
    int64_t threads = 1, shared = 0;
    for (int64_t extent : launch.block) threads *= extent;
    if (threads > target_.max_threads)
      return Err("a block has ", threads, " threads; the target has at most ", target_.max_threads);
    for (const Buffer& buffer : SharedBuffersOf(s)) shared += BytesOf(buffer);
    if (shared > target_.shared_bytes)
      return Err("a block needs ", shared, " bytes of shared memory; the target has ", target_.shared_bytes);
    for (int axis = 0; axis < 3; ++axis) {
      if (launch.grid[axis] > kMostBlocks[axis])
        return Err("a grid has ", launch.grid[axis], " blocks along ", "xyz"[axis], "; GPUs take at most ",
                   kMostBlocks[axis]);
    }
    return {};
  }

  LaunchArg ArgOf(const Name& name) const {
    for (size_t i = 0; i < f_.params.size(); ++i) {
      if (!(f_.params[i].buffer->name == name)) continue;
      if (i < params_) return {LaunchArgKind::kParam, static_cast<int64_t>(i)};
      return {LaunchArgKind::kPrepared, static_cast<int64_t>(i - params_)};
    }
    for (const Workspace::Slot& slot : workspace_.slots) {
      if (slot.buffer->name == name) return {LaunchArgKind::kWorkspace, slot.offset};
    }
    CHECK(false) << "buffer " << name << " has no memory";
    return {};
  }

  const PrimFunc& f_;
  const std::string stem_;
  const size_t params_;  // number of the function's first parameters, which are not prepared buffers
  const Target& target_;
  const Workspace workspace_;
  std::vector<KernelFunction> kernels_;
};

}  // namespace

std::vector<Buffer> SharedBuffersOf(const Stmt& kernel) {
  std::vector<Buffer> buffers;
  Walk(kernel, [&](const Stmt& s) {
    const Alloc* alloc = s.As<Alloc>();
    if (alloc && alloc->buffer->scope == Scope::kShared) buffers.push_back(alloc->buffer);
    return true;
  });
  return buffers;
}

void SetLaunches(const KernelFunctions& functions, const Target& target, KernelMetadata& metadata) {
  metadata.device = ToText(target.kind);
  for (const KernelFunction& kernel : functions.run) metadata.launches.push_back(kernel.launch);
  for (const KernelFunction& kernel : functions.prepare) metadata.prepare.push_back(kernel.launch);
  metadata.workspace_bytes = functions.workspace_bytes;
}

namespace {

// Adds the functions that the kernel's launches start.
void AddFunctions(const KernelMetadata& kernel, DeviceCode& code) {
  constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
  for (const std::vector<Launch>* list : {&kernel.launches, &kernel.prepare}) {
    for (const Launch& launch : *list) {
      code.functions[launch.entry] = {
          std::vector<DLDataType>(launch.args.size(), kAddress),
          {"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"}};
    }
  }
}

// Returns the modules of a library for NVIDIA's GPUs: all kernels as PTX, and as machine code if that can be made here.
Result<std::vector<DeviceCode>> CudaCodesOf(const std::vector<const KernelObject*>& objects, const Target& target) {
  DeviceCode all{.format = "ptx"};
  std::vector<const std::string*> sources;
  for (const KernelObject* object : objects) {
    AddFunctions(object->metadata, all);
    sources.push_back(&object->source);
  }
  all.image = TRY(JoinPtx(sources));
  std::vector<DeviceCode> codes = {all};
  if (std::string cubin = AssemblePtx(all.image, target.arch); !cubin.empty())
    codes.push_back({.format = "cubin", .functions = all.functions, .image = std::move(cubin)});
  return codes;
}

}  // namespace

Result<std::string> DeviceBlobOf(const std::vector<const KernelObject*>& objects, const Target& target) {
  std::vector<DeviceCode> codes;
  if (target.kind == TargetKind::kCuda) {
    codes = TRY(CudaCodesOf(objects, target));
  } else {
    for (const KernelObject* object : objects) {
      codes.push_back({.format = std::string(target.ImageFormat()), .image = object->source});
      AddFunctions(object->metadata, codes.back());
    }
  }
  Module root = MakeUnlinkedLibrary();
  for (DeviceCode& code : codes) TRY(root->Import(MakeDeviceModule(std::string(ToText(target.kind)), std::move(code))));
  ByteWriter out;
  TRY(WriteModuleBlob(root, out));
  return out.Take();
}

Result<KernelFunctions> KernelFunctionsOf(const LoweredKernel& kernel, const std::string& stem, const Target& target) {
  KernelFunctions functions;
  Splitter run(kernel.run, stem, kernel.params.size(), target);
  functions.run = TRY(run.Run());
  functions.workspace_bytes = run.workspace_bytes();
  if (kernel.prepare) {
    Splitter prepare(*kernel.prepare, stem + "_prepare", kernel.prepare->params.size() - kernel.prepared.size(),
                     target);
    functions.prepare = TRY(prepare.Run());
    functions.workspace_bytes = std::max(functions.workspace_bytes, prepare.workspace_bytes());
  }
  return functions;
}

}  // namespace autotune

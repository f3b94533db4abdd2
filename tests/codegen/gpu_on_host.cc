#include "tests/codegen/gpu_on_host.h"

#include <dlfcn.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <regex>

#include "codegen/llvm/link.h"
#include "codegen/llvm/machine.h"
#include "ir/float_math.h"
#include "support/cpu_features.h"
#include "support/rng.h"
#include "tests/codegen/c_compiler.h"
#include "tests/codegen/kernel.h"

namespace autotune::test {
namespace {

constexpr int64_t kStackBytes = 256 << 10;
constexpr const char* kDynamicSharedBytes = "262144";  // more shared memory than any GPU has

// The position of the running thread, and the functions that replace instructions of a GPU. Compiled kernels reach both
// through the pointer @host.state.
struct HostState {
  std::array<int32_t, 6> numbers = {};  // indices of the block along x, y and z, then those of the thread
  void (*barrier)() = nullptr;
  // Starts an asynchronous copy of `used` bytes. The copy sets the rest of the `bytes` to zero.
  void (*copy)(void* to, const void* from, int32_t bytes, int32_t used) = nullptr;
  void (*commit)() = nullptr;
  void (*wait)(int32_t groups) = nullptr;
  // Computes a tensor core product. `words` is one thread's part of the operands: 4 words of a, 2 of b and 4 of c. Its
  // part of the result replaces c. `type`: 0 for TF32, 1 for f16, 2 for bf16.
  void (*mma)(uint32_t* words, int32_t type) = nullptr;
};

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Returns the LLVM IR of the rounding of f32 to bf16. As on a GPU, all NaN become one.
std::string RoundingToBrainFloat() {
  return "define internal bfloat @host.f2bf16.rn(float %x) {\n %b = bitcast float %x to i32\n %l = lshr i32 %b, 16\n"
         " %o = and i32 %l, 1\n %h = add i32 %b, 32767\n %r = add i32 %h, %o\n %s = lshr i32 %r, 16\n"
         " %n = fcmp uno float %x, %x\n %v = select i1 %n, i32 32767, i32 %s\n %t = trunc i32 %v to i16\n"
         " %c = bitcast i16 %t to bfloat\n ret bfloat %c\n}\n";
}

// Returns the LLVM IR of the functions for tensor core products and for the rounding of their operands.
std::string MmaFunctions() {
  std::string text =
      RoundingToBrainFloat() +
      "define internal i32 @host.f2tf32.rna(float %x) {\n %b = bitcast float %x to i32\n %r = add i32 %b, 4096\n"
      " %m = and i32 %r, -8192\n %a = and i32 %b, 2147483647\n %f = icmp ult i32 %a, 2139095040\n"
      " %v = select i1 %f, i32 %m, i32 %b\n ret i32 %v\n}\n";
  const std::pair<const char*, const char*> rows[] = {{"mma.m16n8k8.row.col.tf32", "i32"},
                                                      {"mma.m16n8k16.row.col.f32.f32", "<2 x half>"},
                                                      {"mma.m16n8k16.row.col.bf16", "i32"}};
  for (size_t row = 0; row < std::size(rows); ++row) {
    std::string params, body = " %w = alloca [10 x i32]\n";
    for (int i = 0; i < 10; ++i) {
      const std::string n = std::to_string(i), type = i < 6 ? rows[row].second : "float";
      params += (i ? ", " : "") + type + " %a" + n;
      body +=
          " %p" + n + " = getelementptr i32, ptr %w, i64 " + n + "\n store " + type + " %a" + n + ", ptr %p" + n + "\n";
    }
    body +=
        " %s = load ptr, ptr @host.state\n %q = getelementptr ptr, ptr %s, i64 7\n %f = load ptr, ptr %q\n"
        " call void %f(ptr %w, i32 " +
        std::to_string(row) + ")\n";
    std::string sum = "poison";
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      body += " %d" + n + " = load float, ptr %p" + std::to_string(6 + i) + "\n %s" + n +
              " = insertvalue {float, float, float, float} " + sum + ", float %d" + n + ", " + n + "\n";
      sum = "%s" + n;
    }
    text += std::string("define internal {float, float, float, float} @host.") + rows[row].first + "(" + params +
            ") noinline {\n" + body + " ret {float, float, float, float} %s3\n}\n";
  }
  return text;
}

// Returns this machine's target with its conversions of f16, which the target's text does not always list.
Target HostWithHalves() {
  Target host = Cpu();
  const std::vector<std::string>& present = HostCpuFeatures();
  if (std::find(present.begin(), present.end(), "f16c") != present.end()) host.features.push_back("+f16c");
  return host;
}

// Returns the module as LLVM IR for the host.
std::string HostModule(const KernelObject& object) {
  std::string text;
  std::istringstream lines(object.llvm_ir);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("target ") && line.find("declare") != 0) text += line + "\n";
    if (line.starts_with("declare") && line.find("@llvm.nvvm.") == std::string::npos) text += line + "\n";
  }
  ReplaceAll(text, " addrspace(1)", "");
  ReplaceAll(text, " addrspace(3)", "");
  ReplaceAll(text, "ptx_kernel ", "");
  ReplaceAll(text, "external global [0 x i8]",
             std::string("internal global [") + kDynamicSharedBytes + " x i8] zeroinitializer");
  ReplaceAll(text, "@llvm.nvvm.", "@host.");
  text = std::regex_replace(
      text, std::regex(R"re(asm sideeffect "(cp\.async\.c[ag]\.shared\.global) \[\$0\], \[\$1\], (\d+);", "[^"]*")re"),
      "@host.$1.$2");
  text = std::regex_replace(
      text,
      std::regex(R"re(asm sideeffect "(cp\.async\.c[ag]\.shared\.global) \[\$0\], \[\$1\], (\d+), \$2;", "[^"]*")re"),
      "@host.$1.$2.s");
  text = std::regex_replace(text, std::regex(R"re("target-(cpu|features)"="[^"]*")re"), "");
  text += "@host.state = global ptr null\n";
  static constexpr const char* kNumbers[] = {"ctaid.x", "ctaid.y", "ctaid.z", "tid.x", "tid.y", "tid.z"};
  for (size_t i = 0; i < std::size(kNumbers); ++i) {
    text += std::string("define internal i32 @host.read.ptx.sreg.") + kNumbers[i] +
            "() noinline {\n %p = load ptr, ptr @host.state\n %q = getelementptr i32, ptr %p, i64 " +
            std::to_string(i) + "\n %v = load i32, ptr %q\n ret i32 %v\n}\n";
  }
  text +=
      "define internal void @host.barrier0() noinline {\n %p = load ptr, ptr @host.state\n"
      " %q = getelementptr ptr, ptr %p, i64 3\n %f = load ptr, ptr %q\n call void %f()\n ret void\n}\n";
  // Defines a function that calls the function pointer at index `pointer` of HostState, counted in pointers. The six
  // numbers at its beginning have the size of three pointers.
  auto call = [&](const std::string& signature, int pointer, const std::string& type, const std::string& args) {
    text += "define internal void @host." + signature +
            " noinline {\n %p = load ptr, ptr @host.state\n %q = getelementptr ptr, ptr %p, i64 " +
            std::to_string(pointer) + "\n %f = load ptr, ptr %q\n call void " + type + " %f(" + args +
            ")\n ret void\n}\n";
  };
  for (const char* copy : {"cg.shared.global.16", "ca.shared.global.8", "ca.shared.global.4"}) {
    const std::string name = std::string("cp.async.") + copy, bytes = name.substr(name.rfind('.') + 1);
    call(name + "(ptr %to, ptr %from)", 4, "(ptr, ptr, i32, i32)",
         "ptr %to, ptr %from, i32 " + bytes + ", i32 " + bytes);
    call(name + ".s(ptr %to, ptr %from, i32 %used)", 4, "(ptr, ptr, i32, i32)",
         "ptr %to, ptr %from, i32 " + bytes + ", i32 %used");
  }
  call("cp.async.commit.group()", 5, "()", "");
  call("cp.async.wait.group(i32 %n)", 6, "(i32)", "i32 %n");
  text += MmaFunctions();
  // Defines `void ENTRY.call(ptr addresses)` for each kernel entry.
  for (const std::vector<Launch>* list : {&object.metadata.launches, &object.metadata.prepare}) {
    for (const Launch& launch : *list) {
      std::string args;
      text += "define void @" + launch.entry + ".call(ptr %args) {\n";
      for (size_t i = 0; i < launch.args.size(); ++i) {
        const std::string n = std::to_string(i);
        text +=
            " %p" + n + " = getelementptr ptr, ptr %args, i64 " + n + "\n %a" + n + " = load ptr, ptr %p" + n + "\n";
        args += (i ? ", ptr %a" : "ptr %a") + n;
      }
      text += " call void @" + launch.entry + "(" + args + ")\n ret void\n}\n";
    }
  }
  return text;
}

// Runs the threads of one block as fibers.
class Block {
 public:
  using Kernel = void (*)(void* const*);
  Block(HostState& state, Kernel kernel, void* const* args) : state_(state), kernel_(kernel), args_(args) {}

  Status Run(const Launch& launch, std::array<int32_t, 3> number, Rng& rng) {
    current_ = this;
    rng_ = &rng;
    state_.barrier = [] { current_->Wait(); };
    state_.copy = [](void* to, const void* from, int32_t bytes, int32_t used) {
      current_->Copy({to, from, bytes, used});
    };
    state_.commit = [] { current_->running_->groups.emplace_back(); };
    state_.wait = [](int32_t groups) { current_->Await(groups); };
    state_.mma = [](uint32_t* words, int32_t type) { current_->Mma(words, type); };
    for (int32_t z = 0; z < launch.block[2]; ++z)
      for (int32_t y = 0; y < launch.block[1]; ++y)
        for (int32_t x = 0; x < launch.block[0]; ++x) Add({number[0], number[1], number[2], x, y, z});
    std::vector<size_t> order(threads_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t ended = 0; ended < threads_.size();) {
      for (size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[static_cast<size_t>(rng.Below(static_cast<int64_t>(i)))]);
      for (size_t i : order) {
        running_ = threads_[i].get();
        state_.numbers = running_->numbers;
        swapcontext(&scheduler_, &running_->context);
        ended += running_->ended;
      }
      if (ended != 0 && ended != threads_.size()) return Err("some threads wait at a barrier where others have ended");
    }
    return {};
  }

 private:
  struct AsyncCopy {
    void* to;
    const void* from;
    int32_t bytes, used;
    void Land() const {
      std::memset(to, 0, static_cast<size_t>(bytes));
      if (used > 0) std::memcpy(to, from, static_cast<size_t>(used));
    }
  };
  struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStackBytes]};
    std::array<int32_t, 6> numbers;
    std::deque<std::vector<AsyncCopy>> groups{1};  // groups of asynchronous copies; the last group is not committed yet
    std::array<uint32_t, 10> words;                // this thread's part of a, b and c of the current product
    bool ended = false;
  };

  void Add(std::array<int32_t, 6> numbers) {
    Thread& thread = *threads_.emplace_back(new Thread);
    thread.numbers = numbers;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = &scheduler_;
    makecontext(
        &thread.context, [] { current_->Body(); }, 0);
  }
  void Body() {
    kernel_(args_);
    running_->ended = true;
  }
  // Executes an asynchronous copy at once or, with probability 1/2, only when the thread waits for its group.
  void Copy(const AsyncCopy& copy) {
    if (rng_->Below(2)) return copy.Land();
    running_->groups.back().push_back(copy);
  }
  void Await(int32_t left) {
    while (static_cast<int32_t>(running_->groups.size()) - 1 > left) {
      for (const AsyncCopy& copy : running_->groups.front()) copy.Land();
      running_->groups.pop_front();
    }
  }
  // Computes a tensor core product element by element, with the operands' layout of the PTX ISA. Both waits synchronize
  // all threads of the block, not only a warp. This hides races between products, which the interpreter finds.
  void Mma(uint32_t* words, int32_t type) {
    const size_t me = static_cast<size_t>(
        std::find_if(threads_.begin(), threads_.end(), [&](const auto& t) { return t.get() == running_; }) -
        threads_.begin());
    Thread& thread = *running_;
    std::copy_n(words, thread.words.size(), thread.words.begin());
    Wait();
    const size_t first = me / 32 * 32, lane = me % 32;
    auto number = [&](size_t of, size_t word, size_t part) -> double {
      const uint32_t bits = threads_.at(first + of)->words.at(word);
      if (type == 0) return FloatFromBits(bits, DType::Float(32));
      return FloatFromBits(bits >> (16 * part) & 0xffff, type == 1 ? DType::Float(16) : DType::BFloat16());
    };
    const size_t numbers = type == 0 ? 1 : 2;
    std::array<uint32_t, 4> sums;
    for (size_t e = 0; e < 4; ++e) {
      const size_t row = lane / 4 + (e >= 2 ? 8 : 0), column = lane % 4 * 2 + e % 2;
      float sum = std::bit_cast<float>(thread.words.at(6 + e));
      for (size_t k = 0; k < 8 * numbers; ++k) {
        const size_t far = k >= 4 * numbers, quad = k % (4 * numbers) / numbers, part = k % numbers;
        const double a = number(row % 8 * 4 + quad, (row >= 8 ? 1 : 0) + 2 * far, part);
        const double b = number(column * 4 + quad, 4 + far, part);
        sum = std::fma(static_cast<float>(a), static_cast<float>(b), sum);
      }
      sums.at(e) = std::bit_cast<uint32_t>(sum);
    }
    Wait();
    std::copy(sums.begin(), sums.end(), words + 6);
  }
  void Wait() { swapcontext(&running_->context, &scheduler_); }

  static inline Block* current_ = nullptr;
  HostState& state_;
  Kernel kernel_;
  void* const* args_;
  ucontext_t scheduler_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Thread* running_ = nullptr;
  Rng* rng_ = nullptr;
};

class Library : public GpuOnHost {
 public:
  explicit Library(const KernelObject& object) : metadata_(object.metadata) {}
  ~Library() override {
    if (handle_) dlclose(handle_);
  }

  Status Load(const std::string& shared_object) {
    handle_ = dlopen(folder_.Write("kernel.so", shared_object).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) return Err(dlerror());
    auto* state = static_cast<HostState**>(dlsym(handle_, "host.state"));
    if (!state) return Err("no host.state");
    *state = &state_;
    return {};
  }

  Status Run(const PrimFunc& f, std::vector<InterpArray>& args, uint64_t seed) override {
    Rng rng(seed);
    std::vector<Tensor> params, constants, prepared;
    for (size_t i = 0; i < args.size(); ++i) {
      Tensor t = TRY(Tensor::Empty(args[i].shape, args[i].dtype.Text()));
      for (int64_t k = 0; k < t.num_elements(); ++k)
        SetElement(t, k, f.params[i].role == ParamRole::kOutput ? -77 : args[i].data[static_cast<size_t>(k)]);
      params.push_back(t);
      if (f.params[i].role == ParamRole::kConstant) constants.push_back(t);
    }
    for (int64_t bytes : metadata_.prepared) prepared.push_back(TRY(Tensor::Empty({bytes}, "u8")));
    Tensor workspace = TRY(Tensor::Empty({metadata_.workspace_bytes + 1}, "u8"));
    std::memset(workspace.Data<uint8_t>(), 0xff, static_cast<size_t>(workspace.num_elements()));
    for (const Launch& launch : metadata_.prepare) TRY(Start(launch, constants, prepared, workspace, rng));
    for (const Launch& launch : metadata_.launches) TRY(Start(launch, params, prepared, workspace, rng));
    for (size_t i = 0; i < args.size(); ++i) {
      args[i].data.resize(static_cast<size_t>(params[i].num_elements()));
      for (int64_t k = 0; k < params[i].num_elements(); ++k)
        args[i].data[static_cast<size_t>(k)] = ElementOf(params[i], k);
    }
    return {};
  }

 private:
  Status Start(const Launch& launch, const std::vector<Tensor>& params, const std::vector<Tensor>& prepared,
               const Tensor& workspace, Rng& rng) {
    auto kernel = reinterpret_cast<Block::Kernel>(dlsym(handle_, (launch.entry + ".call").c_str()));
    if (!kernel) return Err("no function ", launch.entry);
    std::vector<void*> addresses;
    for (const LaunchArg& arg : launch.args) {
      const auto i = static_cast<size_t>(arg.index);
      addresses.push_back(arg.kind == LaunchArgKind::kParam      ? params.at(i).data()
                          : arg.kind == LaunchArgKind::kPrepared ? prepared.at(i).data()
                                                                 : workspace.Data<uint8_t>() + arg.index);
    }
    for (int32_t z = 0; z < launch.grid[2]; ++z) {
      for (int32_t y = 0; y < launch.grid[1]; ++y) {
        for (int32_t x = 0; x < launch.grid[0]; ++x)
          TRY(Block(state_, kernel, addresses.data()).Run(launch, {x, y, z}, rng));
      }
    }
    return {};
  }

  const Folder folder_;
  const KernelMetadata metadata_;
  HostState state_;
  void* handle_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<GpuOnHost>> GpuOnHost::Make(const KernelObject& object) {
  llvm::LLVMContext context;
  const std::string text = HostModule(object);
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, problem, context);
  if (!module) return Err("the host's module: ", problem.getMessage().str(), " in ", problem.getLineContents().str());
  std::string invalid;
  llvm::raw_string_ostream stream(invalid);
  if (llvm::verifyModule(*module, &stream)) return Err(invalid);
  const Target host = HostWithHalves();
  const LlvmMachine machine = TRY(LlvmMachine::For(host));
  const std::unique_ptr<llvm::Module> empty = machine.NewModule(context, "empty");
  module->setTargetTriple(empty->getTargetTriple());
  module->setDataLayout(empty->getDataLayout());
  const std::string elf = TRY(machine.Emit(*module, false, nullptr));
  auto library = std::make_unique<Library>(object);
  TRY(library->Load(TRY(LinkShared({&elf}))));
  return std::unique_ptr<GpuOnHost>(std::move(library));
}

}  // namespace autotune::test

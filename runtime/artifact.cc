#include "runtime/artifact.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "runtime/kernel_context.h"
#include "runtime/seal.h"
#include "runtime/tensor.h"
#include "support/cpu_features.h"
#include "support/file.h"
#include "support/json.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kThisMachine = EM_X86_64;
constexpr uint32_t kIndirect = R_X86_64_IRELATIVE;
#elif defined(__aarch64__)
constexpr Elf64_Half kThisMachine = EM_AARCH64;
constexpr uint32_t kIndirect = R_AARCH64_IRELATIVE;
#elif defined(__riscv)
constexpr Elf64_Half kThisMachine = EM_RISCV;
constexpr uint32_t kIndirect = R_RISCV_IRELATIVE;
#else
#error "no ELF machine number for this CPU"
#endif

constexpr int64_t kMaxPreparedBytes = int64_t{1} << 40;
constexpr size_t kMaxMetadataBytes = size_t{64} << 20;

std::string MachineName(Elf64_Half machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_RISCV:
      return "RISC-V";
    default:
      return "ELF machine " + std::to_string(machine);
  }
}

// Returns an error if the loader would run code of the file. `elf` has passed CheckElf.
Status CheckLoadsWithoutRunning(std::string_view elf) {
  Elf64_Ehdr header{};
  std::memcpy(&header, elf.data(), sizeof header);
  const auto read = [&](uint64_t offset, auto& value) {
    if (offset > elf.size() || elf.size() - offset < sizeof value) return false;
    std::memcpy(&value, elf.data() + offset, sizeof value);
    return true;
  };
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  for (size_t i = 0; i < segments.size(); ++i) read(header.e_phoff + i * sizeof(Elf64_Phdr), segments[i]);
  const auto offset_of = [&](uint64_t address) {
    for (const Elf64_Phdr& s : segments) {
      if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
        return s.p_offset + (address - s.p_vaddr);
    }
    return uint64_t{elf.size()};
  };
  std::map<Elf64_Sxword, Elf64_Xword> dynamic;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    Elf64_Dyn entry{};
    for (uint64_t at = offset_of(segment.p_vaddr); read(at, entry) && entry.d_tag != DT_NULL; at += sizeof entry)
      dynamic[entry.d_tag] = entry.d_un.d_val;
  }
  for (const Elf64_Sxword tag : {DT_INIT, DT_FINI, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_PREINIT_ARRAY}) {
    if (dynamic.count(tag)) return Err("it has code that runs while it is loaded or unloaded");
  }
  // Functions that return the address of a symbol.
  for (const auto& [table, size] : {std::pair{DT_RELA, DT_RELASZ}, std::pair{DT_JMPREL, DT_PLTRELSZ}}) {
    Elf64_Rela relocation{};
    const uint64_t begin = dynamic.count(table) ? offset_of(dynamic[table]) : 0;
    for (uint64_t at = 0; at + sizeof relocation <= dynamic[size] && read(begin + at, relocation);
         at += sizeof relocation) {
      if (ELF64_R_TYPE(relocation.r_info) == kIndirect)
        return Err("it has code that runs while it is loaded or unloaded");
    }
  }
  return {};
}

// Returns an error if loading or running the file would crash this process. dlopen maps a truncated file without an
// error although segments are missing, and it does not notice damaged code.
Status CheckElf(std::string_view elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof header) return Err("not a shared object: only ", elf.size(), " bytes");
  std::memcpy(&header, elf.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Err("not a shared object: no ELF header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN) {
    return Err("not a 64-bit little-endian shared object");
  }
  if (header.e_machine != kThisMachine) {
    return Err("compiled for ", MachineName(header.e_machine), ", but this device is ", MachineName(kThisMachine),
               "; check the target (for this machine: --target cpu)");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > elf.size() ||
      header.e_phnum > (elf.size() - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return Err("truncated shared object: its program headers are missing");
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_filesz > elf.size() || segment.p_offset > elf.size() - segment.p_filesz) {
      return Err("truncated shared object: a segment ends at byte ", segment.p_offset + segment.p_filesz, " of ",
                 elf.size());
    }
  }
  // Section headers are at the end of most files, so they tell whether a file is complete. dlopen does not check them.
  const uint64_t sections = uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > elf.size() || sections > elf.size() - header.e_shoff)
    return Err("truncated shared object: its section headers are missing");
  return CheckSeal(elf);
}

// Checks a list of launches: their extents, and that each argument names an existing parameter or buffer of `kernel`.
// `params` is the number of parameters that the launches may use.
Status CheckLaunches(const KernelMetadata& kernel, const std::vector<Launch>& launches, size_t params) {
  constexpr int64_t kMostBlocks = INT32_MAX, kMostThreads = 1 << 20;  // per axis, so that products do not overflow
  auto check_extents = [](const std::vector<int64_t>& extents, int64_t most) {
    return !extents.empty() && extents.size() <= 3 &&
           std::all_of(extents.begin(), extents.end(), [most](int64_t n) { return n > 0 && n <= most; });
  };
  for (const Launch& launch : launches) {
    const std::string where = "launch of " + launch.entry;
    if (launch.entry.empty()) return Err("a launch names no function");
    if (!check_extents(launch.grid, kMostBlocks) || !check_extents(launch.block, kMostThreads))
      return Err(where, ": grid and block take one to three extents, each at least 1");
    if (launch.shared_bytes < 0) return Err(where, ": shared_bytes is negative: ", launch.shared_bytes);
    for (const LaunchArg& arg : launch.args) {
      const size_t most = arg.kind == LaunchArgKind::kParam      ? params
                          : arg.kind == LaunchArgKind::kPrepared ? kernel.prepared.size()
                                                                 : static_cast<size_t>(kernel.workspace_bytes) + 1;
      if (arg.index < 0 || static_cast<size_t>(arg.index) >= most)
        return Err(where, ": there is no ", ToText(arg.kind), " ", arg.index);
    }
  }
  return {};
}

Status CheckKernelMetadata(const KernelMetadata& kernel) {
  for (const TensorSpec& param : kernel.params) {
    DLDataType type = TRY_NOTE(DataTypeFromText(param.dtype), "parameter " + param.name);
    TRY_NOTE(ShapeBytes(param.shape, type), "parameter " + param.name);
    if (param.alignment < 1 || param.alignment > AT_ALIGNMENT ||
        !std::has_single_bit(static_cast<uint64_t>(param.alignment))) {
      return Err("parameter ", param.name, " cannot be aligned to ", param.alignment, " bytes");
    }
  }
  for (int64_t bytes : kernel.prepared) {
    if (bytes < 0 || bytes > kMaxPreparedBytes) return Err("a prepared buffer cannot have ", bytes, " bytes");
  }
  for (int64_t i : kernel.prepare_only) {
    if (i < 0 || i >= static_cast<int64_t>(kernel.params.size()) || kernel.params[i].kind != ParamKind::kConstant) {
      return Err("prepare_only names parameter ", i, ", which is no constant");
    }
  }
  for (int64_t bytes : {kernel.workspace_bytes, kernel.thread_workspace_bytes}) {
    if (bytes < 0 || bytes > kMaxPreparedBytes) return Err("the scratch memory cannot have ", bytes, " bytes");
  }
  if (kernel.device.empty()) {
    if (!kernel.launches.empty() || !kernel.prepare.empty()) return Err("a kernel for the CPU must not have launches");
    return {};
  }
  if (kernel.launches.empty()) return Err("a kernel for ", kernel.device, " has no launches");
  if (kernel.prepared.empty() != kernel.prepare.empty())
    return Err("prepared buffers and launches that prepare them must come together");
  TRY(CheckLaunches(kernel, kernel.launches, kernel.params.size()));
  return CheckLaunches(kernel, kernel.prepare, kernel.ParamsOfKind(ParamKind::kConstant).size());
}

Status KernelError(const Kernel& kernel, const char* entry, KernelContext& context, int32_t code) {
  return context.TakeError("kernel " + kernel.metadata.name + entry + " failed with code " + std::to_string(code));
}

}  // namespace

std::vector<int64_t> KernelMetadata::ParamsOfKind(ParamKind kind) const {
  std::vector<int64_t> indices;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind == kind) indices.push_back(static_cast<int64_t>(i));
  }
  return indices;
}

Result<std::shared_ptr<const Artifact>> Artifact::FromStranger(std::string_view elf) {
  TRY(CheckElf(elf));
  TRY(CheckLoadsWithoutRunning(elf));
  return FromBytes(elf);
}

Result<std::shared_ptr<const Artifact>> Artifact::FromBytes(std::string_view elf) {
  TRY(CheckElf(elf));
  int fd = memfd_create("autotune-artifact", MFD_CLOEXEC);
  if (fd < 0) return Err("cannot create memory for an artifact: ", std::strerror(errno));
  Status written = WriteAll(fd, elf, "an artifact to memory");
  if (!written.ok()) {
    close(fd);
    return std::move(written).error();
  }
  return Open("/proc/self/fd/" + std::to_string(fd), "artifact", fd);
}

Result<std::shared_ptr<const Artifact>> Artifact::FromBytes(std::string_view elf, UniqueFd file) {
  TRY(CheckElf(elf));
  void* memory = mmap(nullptr, elf.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return Err("cannot map memory for an artifact: ", std::strerror(errno));
  std::memcpy(memory, elf.data(), elf.size());
  munmap(memory, elf.size());
  const int fd = file.Release();
  return Open("/proc/self/fd/" + std::to_string(fd), "artifact", fd);
}

Result<std::shared_ptr<const Artifact>> Artifact::FromFile(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Err("cannot open ", path, ": ", std::strerror(errno));
  off_t size = lseek(fd, 0, SEEK_END);
  void* bytes = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  Status checked = bytes == MAP_FAILED ? Status(Err("not a shared object: empty or unreadable"))
                                       : CheckElf({static_cast<const char*>(bytes), static_cast<size_t>(size)});
  if (bytes != MAP_FAILED) munmap(bytes, size);
  if (!checked.ok()) {
    close(fd);
    return std::move(checked).error().Note(path);
  }
  // Open the file by its descriptor. The loader identifies objects by path, so it would not load a file that has
  // replaced a loaded one under the same path.
  return Open("/proc/self/fd/" + std::to_string(fd), path, fd);
}

Result<std::shared_ptr<const Artifact>> Artifact::Open(const std::string& path, const std::string& shown, int fd) {
  std::shared_ptr<Artifact> artifact(new Artifact);
  artifact->fd_ = fd;
  artifact->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!artifact->handle_) {
    const char* why = dlerror();
    return Err("cannot load ", shown, ": ", why ? why : "unknown reason");
  }
  TRY_NOTE(artifact->ReadKernels(), "while loading " + shown);
  return std::shared_ptr<const Artifact>(std::move(artifact));
}

Artifact::~Artifact() {
  if (handle_) dlclose(handle_);
  if (fd_ >= 0) close(fd_);
}

void* Artifact::Symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

Status Artifact::ReadKernels() {
  auto* text = static_cast<const char*>(Symbol("autotune.metadata"));
  if (!text) return Err("not an artifact: it has no symbol autotune.metadata");
  const Json json = TRY_NOTE(Json::Parse({text, strnlen(text, kMaxMetadataBytes)}), "autotune.metadata");
  const int64_t* version = json["abi_version"].As<int64_t>();
  if (!version || *version != AT_ABI_VERSION) {
    return Err("artifact ABI version ", version ? std::to_string(*version) : "missing", ", but this runtime has ",
               AT_ABI_VERSION, "; build both from one release");
  }
  metadata_ = TRY_NOTE(FromJson<ArtifactMetadata>(json), "autotune.metadata");
  if (Status runs_here = CheckCpuFeatures(metadata_.cpu_features); !runs_here.ok()) {
    return Err("its code ", runs_here.error().Text(), "; check the target (for this machine: --target cpu)");
  }
  std::set<std::string_view> names;
  for (const KernelMetadata& kernel : metadata_.kernels) {
    if (kernel.name.empty() || !names.insert(kernel.name).second) {
      return Err("autotune.metadata: kernel name '", kernel.name, "' is empty or occurs twice");
    }
    TRY_NOTE(CheckKernelMetadata(kernel), "kernel " + kernel.name);
    Kernel entry;
    entry.metadata = kernel;
    if (!kernel.device.empty()) {
      kernels_.push_back(std::move(entry));
      continue;
    }
    entry.checked = reinterpret_cast<decltype(entry.checked)>(Symbol(kernel.name));
    entry.raw = reinterpret_cast<decltype(entry.raw)>(Symbol(kernel.name + ".raw"));
    entry.prepare = reinterpret_cast<decltype(entry.prepare)>(Symbol(kernel.name + ".prepare"));
    if (!entry.checked || !entry.raw)
      return Err("kernel ", kernel.name, " has no entry point ", kernel.name, entry.checked ? ".raw" : "");
    if (!kernel.prepared.empty() && !entry.prepare)
      return Err("kernel ", kernel.name, " has prepared buffers but no entry point ", kernel.name, ".prepare");
    if (kernel.prepared.empty()) entry.prepare = nullptr;
    kernels_.push_back(std::move(entry));
  }
  return {};
}

Result<const Kernel*> Artifact::Find(std::string_view name) const {
  for (const Kernel& kernel : kernels_) {
    if (kernel.metadata.name == name) return &kernel;
  }
  return Err("the artifact has no kernel '", name, "'");
}

Result<std::vector<Tensor>> PrepareConstants(const Kernel& kernel, KernelContext& context,
                                             std::span<const Tensor> constants,
                                             const std::function<Result<Tensor>(int64_t)>& allocate) {
  std::vector<Tensor> prepared;
  if (!kernel.prepare) return prepared;
  std::vector<int64_t> indices = kernel.metadata.ParamsOfKind(ParamKind::kConstant);
  if (indices.size() != constants.size()) {
    return Err("kernel ", kernel.metadata.name, " has ", indices.size(), " constants, got ", constants.size());
  }
  std::vector<void*> args;
  for (size_t i = 0; i < indices.size(); ++i) {
    const TensorSpec& spec = kernel.metadata.params[indices[i]];
    if (DataTypeText(constants[i].dtype()) != spec.dtype || constants[i].shape() != spec.shape) {
      return Err("kernel ", kernel.metadata.name, ": constant ", spec.name, " is ", spec.dtype, ShapeText(spec.shape),
                 ", got ", constants[i].TypeText());
    }
    args.push_back(constants[i].data());
  }
  for (int64_t bytes : kernel.metadata.prepared) {
    prepared.push_back(TRY(allocate ? allocate(bytes) : Tensor::Empty({bytes}, "u8")));
    args.push_back(prepared.back().data());
  }
  if (int32_t code = kernel.prepare(context.abi(), args.data())) {
    TRY(KernelError(kernel, ".prepare", context, code));
  }
  return prepared;
}

Status CallKernel(const Kernel& kernel, KernelContext& context, std::span<const Tensor> args,
                  std::span<const Tensor> prepared) {
  if (!kernel.checked)
    return Err("kernel ", kernel.metadata.name, " is for ", kernel.metadata.device, ", not for the CPU");
  std::vector<const void*> pointers;
  for (const Tensor& tensor : args) pointers.push_back(tensor.dl());
  for (const Tensor& tensor : prepared) pointers.push_back(tensor.dl());
  int32_t code = kernel.checked(context.abi(), pointers.data(), static_cast<int32_t>(pointers.size()));
  return code ? KernelError(kernel, "", context, code) : Status();
}

Result<std::vector<Tensor>> AllocateArgs(const KernelMetadata& metadata) {
  std::vector<Tensor> args;
  for (const TensorSpec& spec : metadata.params) {
    args.push_back(TRY_NOTE(Tensor::Empty(spec.shape, spec.dtype), "parameter " + spec.name));
  }
  return args;
}

}  // namespace autotune

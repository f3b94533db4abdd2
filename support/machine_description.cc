#include "support/machine_description.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "support/cpu_features.h"
#include "support/cpus.h"
#include "support/integer.h"

namespace autotune {
namespace {

// The lines "name : value" of one processor in proc/cpuinfo, or of the machine.
using Lines = std::map<std::string, std::string>;

std::string Trimmed(const std::string& text) {
  constexpr char kSpace[] = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Returns a file's text without the zero with which texts of the device tree end, and without space around it.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return Trimmed(text.substr(0, text.find('\0')));
}

int64_t NumberOf(const std::string& text) { return ParseInteger(text).value_or(0); }

struct CpuInfo {
  std::map<int64_t, Lines> processors;  // by number
  Lines machine;                        // lines outside of processors
};

CpuInfo ReadCpuInfo(const std::string& root) {
  CpuInfo info;
  Lines block;
  const auto end_block = [&] {
    const auto number = block.find("processor");
    if (number == block.end()) {
      info.machine.merge(block);
    } else if (const auto parsed = ParseInteger(number->second)) {
      info.processors[*parsed] = block;
    }
    block.clear();
  };
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      end_block();
    } else {
      block.emplace(Trimmed(line.substr(0, colon)), Trimmed(line.substr(colon + 1)));
    }
  }
  end_block();
  return info;
}

std::string ValueOf(const Lines& lines, const std::string& name) {
  const auto found = lines.find(name);
  return found == lines.end() ? "" : found->second;
}

// Returns the first of these values that is not empty.
std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values)
    if (!value.empty()) return value;
  return "";
}

bool HasWord(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

// Linux states it in a file since 6.1; before that, the lines of a processor show it.
std::string ArchitectureOf(const std::string& root, const Lines& processor, const Lines& machine) {
  if (std::string stated = TextOf(root + "/proc/sys/kernel/arch"); !stated.empty()) return stated;
  const std::string isa = ValueOf(processor, "isa"), flags = ValueOf(processor, "flags");
  if (isa.starts_with("rv")) return isa.starts_with("rv32") ? "riscv32" : "riscv64";
  if (!flags.empty()) return HasWord(flags, "lm") ? "x86_64" : "i686";
  if (processor.contains("CPU implementer"))
    return NumberOf(ValueOf(processor, "CPU architecture")) < 8 ? "armv7l" : "aarch64";
  if (ValueOf(processor, "cpu").starts_with("POWER")) return "ppc64le";
  return machine.contains("vendor_id") ? "s390x" : "";
}

// The two words of features in the auxiliary vector of a process: pairs of a type and a value of 64 bits.
struct Hwcaps {
  uint64_t first = 0, second = 0;
};
Hwcaps ReadHwcaps(const std::string& root) {
  constexpr uint64_t kFirst = 16, kSecond = 26;  // AT_HWCAP, AT_HWCAP2
  Hwcaps hwcaps;
  std::ifstream file(root + "/proc/self/auxv", std::ios::binary);
  uint64_t entry[2];
  while (file.read(reinterpret_cast<char*>(entry), sizeof entry)) {
    if (entry[0] == kFirst) hwcaps.first = entry[1];
    if (entry[0] == kSecond) hwcaps.second = entry[1];
  }
  return hwcaps;
}

// Returns the extensions that code generation knows: "rv64imafdcv_zicsr_zvl256b" has m, a, f, d, c, v and zvl256b.
std::vector<std::string> RiscvExtensions(const Lines& processor, const Hwcaps& hwcaps) {
  constexpr std::string_view kLetters = "mafdcv";
  std::vector<std::string> extensions;
  // The vectors of drafts of the standard, such as 0.7.1, have other instructions.
  const bool draft_vectors = ValueOf(processor, "cpu-vector").starts_with("0.");
  const auto add = [&](char letter) {
    if (kLetters.find(letter) != std::string_view::npos && !(letter == 'v' && draft_vectors))
      extensions.emplace_back(1, letter);
  };
  const std::string isa = ValueOf(processor, "isa");
  if (!isa.starts_with("rv64")) {  // the kernel has one bit for each letter
    for (char letter : kLetters)
      if ((hwcaps.first >> (letter - 'a')) & 1) add(letter);
    return extensions;
  }
  std::istringstream parts(isa.substr(4));
  std::string part;
  std::getline(parts, part, '_');
  for (char letter : part) {
    if (letter != 'g') add(letter);
    if (letter == 'g') std::ranges::for_each(std::string_view("mafd"), add);
  }
  while (std::getline(parts, part, '_')) {
    if (part.starts_with("zvl") && std::ranges::find(extensions, "v") != extensions.end()) extensions.push_back(part);
  }
  return extensions;
}

// Sets core and features, which each architecture states in its own way.
void DescribeCore(const std::string& root, const Lines& processor, MachineDescription& machine) {
  const auto joined = [&](std::initializer_list<const char*> names) {
    std::string text;
    for (const char* name : names) text += (text.empty() ? "" : " ") + ValueOf(processor, name);
    return Trimmed(text);
  };
  if (machine.architecture == "x86_64") {
    machine.core = joined({"vendor_id", "cpu family", "model"});
    machine.features = CpuFeaturesOfWords("x86_64", ValueOf(processor, "flags"));
  } else if (machine.architecture == "aarch64") {
    machine.core = joined({"CPU implementer", "CPU part"});
    machine.features = CpuFeaturesOfWords("aarch64", ValueOf(processor, "Features"));
    const Hwcaps hwcaps = ReadHwcaps(root);
    if (!processor.contains("Features")) machine.features = CpuFeaturesOfHwcaps(hwcaps.first, hwcaps.second);
  } else if (machine.architecture == "riscv64") {
    machine.core = FirstOf({ValueOf(processor, "uarch"), joined({"mvendorid", "marchid"})});
    machine.features = RiscvExtensions(processor, ReadHwcaps(root));
  }
}

// Returns the CPU of the largest kind among `cores`: the kernel gives 1024 to the fastest ones of a machine with
// several kinds, and to all of another one.
int LargestOf(const std::vector<int>& cores, const std::string& cpus) {
  int largest = cores.empty() ? 0 : cores.front();
  int64_t capacity = 0;
  for (int core : cores) {
    const int64_t its = NumberOf(TextOf(cpus + "/cpu" + std::to_string(core) + "/cpu_capacity"));
    if (its > capacity) capacity = its, largest = core;
  }
  return largest;
}

int64_t PhysicalCores(const std::vector<int>& cores, const std::string& cpus) {
  std::set<std::string> siblings;
  for (int core : cores) {
    const std::string folder = cpus + "/cpu" + std::to_string(core);
    const std::string stated = TextOf(folder + "/topology/thread_siblings_list");
    siblings.insert(stated.empty() ? folder : stated);
  }
  return static_cast<int64_t>(siblings.size());
}

int64_t MemoryBytes(const std::string& root) {
  double bytes = 0;
  std::ifstream lines(root + "/proc/meminfo");
  for (std::string name; lines >> name;) {
    if (name == "MemTotal:" && lines >> bytes) break;
    lines.ignore(256, '\n');
  }
  return static_cast<int64_t>(std::min(bytes * 1024, MemoryLimit(root)));
}

}  // namespace

MachineDescription DescribeMachine(const std::string& root, std::vector<int> cores, std::string architecture) {
  const CpuInfo info = ReadCpuInfo(root);
  if (cores.empty())
    for (const auto& [number, lines] : info.processors) cores.push_back(static_cast<int>(number));
  const std::string cpus = root + "/sys/devices/system/cpu";
  const int core = LargestOf(cores, cpus);
  const auto found = info.processors.find(core);
  const Lines processor = found == info.processors.end() ? Lines() : found->second;

  MachineDescription machine;
  const std::string stated = ArchitectureOf(root, processor, info.machine);
  machine.architecture = architecture.empty() ? stated : architecture;
  DescribeCore(root, processor, machine);
  machine.model = FirstOf({machine.architecture == "x86_64" ? ValueOf(processor, "model name") : "",
                           TextOf(root + "/proc/device-tree/model"), ValueOf(info.machine, "Model"),
                           TextOf(root + "/sys/devices/virtual/dmi/id/product_name"), machine.core,
                           ValueOf(processor, "model name"), ValueOf(processor, "cpu")});
  machine.online_cores = static_cast<int64_t>(info.processors.size());
  const double usable = std::min(static_cast<double>(cores.size()), std::ceil(CpuQuota(root)));
  machine.usable_cores = cores.empty() ? 0 : static_cast<int64_t>(std::max(1.0, usable));
  machine.physical_cores = PhysicalCores(cores, cpus);
  machine.l1_bytes = CacheBytes(root, core, 1);
  machine.l2_bytes = CacheBytes(root, core, 2);
  machine.l3_bytes = CacheBytes(root, core, 3);
  machine.memory_bytes = MemoryBytes(root);
  machine.clock_mhz = NumberOf(TextOf(cpus + "/cpu" + std::to_string(core) + "/cpufreq/cpuinfo_max_freq")) / 1000;
  return machine;
}

MachineDescription DescribeHost(const std::vector<int>& cores) {
#if defined(__x86_64__)
  constexpr char kOwn[] = "x86_64";
#elif defined(__aarch64__)
  constexpr char kOwn[] = "aarch64";
#elif defined(__riscv)
  constexpr char kOwn[] = "riscv64";
#else
#error "unknown host architecture: add its name"
#endif
  MachineDescription machine = DescribeMachine("/", cores.empty() ? AllowedCpus() : cores, kOwn);
  // The kernel may refuse registers that the processor has (AMX), as sandboxes do.
  const std::vector<std::string>& granted = HostCpuFeatures();
  std::erase_if(machine.features, [&](const std::string& name) {
    return name.starts_with("amx-") && std::ranges::find(granted, name) == granted.end();
  });
  return machine;
}

}  // namespace autotune

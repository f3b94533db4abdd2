#include "tests/law/law.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>

namespace autotune::law {
namespace {

// A third-party package. Only its doors may include it: files, or folders if the name ends with a slash.
struct Package {
  std::string prefix;  // beginning of its headers' names
  std::vector<std::string> doors;
  bool in_headers = false;  // whether any file may include the doors' headers that include this package
};

const std::vector<Package>& Packages() {
  static const std::vector<Package> packages = {
      {"llvm/", {"codegen/llvm/", "tests/codegen/"}},
      {"llvm-c/", {"codegen/llvm/"}},
      {"lld/", {"codegen/llvm/"}},
      {"seccomp", {"rpc/system_calls.cc"}},
      {"zmq",
       {"bench/farm_curve.cc", "bench/farm_link.cc", "rpc/curve_keys.cc", "rpc/dealer_socket.cc", "rpc/transport.cc",
        "rpc/watched_socket.h", "rpc/zap.cc", "rpc/zeromq.cc", "rpc/zeromq.h"}},
      {"sodium.h", {"rpc/capability.cc", "rpc/content_hash.cc"}},
      {"xgboost/", {"costmodel/xgboost.h", "costmodel/xgboost_model.cc", "costmodel/xgboost_regression.cc"}},
      {"sqlite3.h", {"records/sqlite.cc"}},
      {"nlohmann/", {"support/json.cc"}},
      {"boost/", {"http/server.cc", "support/loop.cc"}},
      {"google/protobuf/", {"frontend/onnx/", "tests/frontend/"}},
      {"onnx/", {"frontend/onnx/", "tests/frontend/"}},
      {"CLI/", {"tools/"}},
      {"archive", {"archives/", "tests/package/"}},
      {"oneapi/dnnl/", {"bench/onednn.cc"}},
      {"spdlog/", {"support/log.cc"}},
      {"fmt/", {"support/log.cc"}},
      {"xxhash.h", {"support/hash.cc"}},
      {"CL/", {"runtime/opencl/"}},
      {"gtest/", {"tests/"}, true},
      {"gmock/", {"tests/"}, true},
      {"dlpack/", {"runtime/"}, true},
      {"autotune/", {"service/compiler_c_api.h"}, true},  // our own C header, as programs of others include it
  };
  return packages;
}

// Returns whether a header belongs to the system or the compiler. Names that contain neither a dot nor a slash are
// those of the C++ standard library.
bool IsSystemHeader(const std::string& name) {
  static const std::set<std::string> known = {
      "arm_neon.h",  "assert.h",    "cpuid.h",   "dlfcn.h",   "elf.h",       "emmintrin.h", "errno.h",  "fcntl.h",
      "fnmatch.h",   "fenv.h",      "float.h",   "grp.h",     "immintrin.h", "inttypes.h",  "limits.h", "link.h",
      "pty.h",       "malloc.h",    "math.h",    "netdb.h",   "poll.h",      "pthread.h",   "pwd.h",    "sched.h",
      "setjmp.h",    "signal.h",    "spawn.h",   "stdarg.h",  "stddef.h",    "stdint.h",    "stdio.h",  "stdlib.h",
      "string.h",    "strings.h",   "syscall.h", "termios.h", "time.h",      "ucontext.h",  "unistd.h", "wait.h",
      "x86intrin.h", "xmmintrin.h", "ftw.h",     "glob.h",    "getopt.h",    "stdbool.h",   "ifaddrs.h"};
  if (name.find_first_of("./") == std::string::npos || known.count(name)) return true;
  for (const char* folder : {"sys/", "linux/", "arpa/", "net/", "netinet/", "asm/", "bits/"}) {
    if (name.starts_with(folder)) return true;
  }
  return false;
}

std::string TopFolder(const std::string& path) {
  size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

int LayerOf(const std::string& folder) {
  const auto& layers = Layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (std::count(layers[i].begin(), layers[i].end(), folder)) return static_cast<int>(i);
  }
  return -1;
}

template <class F>
void ForEachLine(const std::string& text, F f) {
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) f(line, number);
}

std::string At(const std::string& file, int line) { return file + ":" + std::to_string(line) + ": "; }

bool Passes(const std::string& path, const std::string& door) {
  return door.ends_with('/') ? path.starts_with(door) : path == door;
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const Package* PackageOf(const std::string& header) {
  for (const Package& package : Packages()) {
    if (header.starts_with(package.prefix)) return &package;
  }
  return nullptr;
}

bool IsDoor(const Package& package, const std::string& path) {
  return std::any_of(package.doors.begin(), package.doors.end(),
                     [&](const std::string& door) { return Passes(path, door); });
}

struct Include {
  std::string path;  // the including file
  int line;
  bool quoted;
  std::string name;
};

std::vector<Include> IncludesOf(const std::vector<Source>& sources) {
  static const std::regex form(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*$)");
  std::vector<Include> includes;
  for (const Source& source : sources) {
    ForEachLine(source.text, [&](const std::string& line, int number) {
      std::smatch match;
      if (line.find("include") == std::string::npos || !std::regex_match(line, match, form)) return;
      includes.push_back({source.path, number, match[1] == "\"", match[2]});
    });
  }
  return includes;
}

// Returns our headers that include a third-party package, directly or through other headers, with that package. Only
// the package's doors may include such headers. The headers of tests are not listed.
std::map<std::string, const Package*> LeakyHeaders(const std::vector<Include>& includes) {
  std::map<std::string, const Package*> leaky;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Include& include : includes) {
      if (!include.path.ends_with(".h") || include.path.starts_with("tests/") || leaky.count(include.path)) continue;
      const Package* package = nullptr;
      if (!include.quoted) {
        package = PackageOf(include.name);
        if (package && package->in_headers) package = nullptr;
      } else if (auto found = leaky.find(include.name); found != leaky.end()) {
        package = found->second;
      }
      if (package) leaky[include.path] = package;
      changed = changed || package;
    }
  }
  return leaky;
}

// Returns why a file may not include a header in angle brackets; "" if it may.
std::string RefuseAngle(const std::string& path, const std::string& name) {
  if (IsSystemHeader(name)) return "";
  const Package* package = PackageOf(name);
  if (!package)
    return "<" + name + "> is unknown: if it is third-party, list the files that may include it in tests/law/law.cc";
  if (IsDoor(*package, path)) return "";
  return "<" + name + "> is a third-party header that only " + Join(package->doors) + " may include";
}

// Returns why a file may not include a header in quotes; "" if it may.
std::string RefuseQuoted(const std::string& path, const std::string& name, const Components& components) {
  std::string from = TopFolder(path), to = TopFolder(name);
  if (to.empty() || name.find("..") != std::string::npos) return "\"" + name + "\" is not relative to the root";
  if (from == to) return "";
  if (LayerOf(to) < 0) return "\"" + name + "\" is in no component";
  if (LayerOf(from) < 0) return "";  // tests, benchmarks and examples may include any component
  auto component = components.find(from);
  if (component == components.end()) return "the folder " + from + " has no component(...) line";
  if (component->second.deps.count(to)) return "";
  return "\"" + name + "\": " + from + " may not include " + to + ", which is not among the DEPS of " +
         component->second.file;
}

}  // namespace

const std::vector<std::vector<std::string>>& Layers() {
  static const std::vector<std::vector<std::string>> layers = {
      {"support"},
      {"ir", "records", "runtime", "target"},
      {"archives", "arith", "http", "package", "rpc"},
      {"te", "schedule", "lower", "tracker"},
      {"topi", "codegen", "costmodel"},
      {"graph"},
      {"frontend", "tuner"},
      {"compiler"},
      {"api"},
      {"service"},
      {"tools"},
  };
  return layers;
}

std::vector<std::string> ParseComponents(const std::vector<Source>& files, Components& components) {
  static const std::regex line_form(R"(^\s*component\(\s*(\w+)(.*)$)");
  std::vector<std::string> findings;
  for (const Source& file : files) {
    if (!file.path.ends_with("/CMakeLists.txt")) continue;
    ForEachLine(file.text, [&](const std::string& line, int number) {
      std::smatch match;
      if (!std::regex_match(line, match, line_form)) return;
      Component component{match[1], {}, file.path, number};
      if (line.find(')') == std::string::npos) {
        findings.push_back(At(file.path, number) + "component(...) must be on one line");
      }
      std::string rest = match[2];
      std::istringstream words(rest.substr(0, rest.find(')')));
      bool in_deps = false;
      for (std::string word; words >> word;) {
        if (word == "DEPS" || word == "LIBS" || word == "EXCLUDE") {
          in_deps = word == "DEPS";
        } else if (in_deps) {
          component.deps.insert(word);
        }
      }
      std::string folder = TopFolder(file.path);
      if (component.name != folder) {
        findings.push_back(At(file.path, number) + "the component " + component.name +
                           " must have its folder's name, " + folder);
      }
      if (!components.emplace(folder, component).second) {
        findings.push_back(At(file.path, number) + "a second component(...) in the folder " + folder);
      }
    });
  }
  return findings;
}

std::vector<std::string> CheckLayers(const Components& components) {
  std::vector<std::string> findings;
  for (const auto& [folder, component] : components) {
    std::string at = At(component.file, component.line);
    if (LayerOf(folder) < 0) {
      findings.push_back(at + folder + " is in no layer: add it to tests/law/law.cc");
      continue;
    }
    for (const std::string& dep : component.deps) {
      if (LayerOf(dep) < 0) {
        findings.push_back(at + folder + " depends on " + dep + ", which is no component");
      } else if (LayerOf(dep) >= LayerOf(folder)) {
        findings.push_back(at + folder + " depends on " + dep + ", which is not in a lower layer");
      }
    }
  }
  // Reports each cycle of dependencies with its full path. The check of the layers also finds cycles, but does not
  // print them.
  std::set<std::string> done;
  std::vector<std::string> way;
  std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    auto start = std::find(way.begin(), way.end(), folder);
    if (start != way.end()) {
      std::vector<std::string> circle(start, way.end());
      circle.push_back(folder);
      const Component& component = components.at(folder);
      findings.push_back(At(component.file, component.line) + "a cycle of dependencies: " + Join(circle));
      return;
    }
    auto component = components.find(folder);
    if (component == components.end() || done.count(folder)) return;
    way.push_back(folder);
    for (const std::string& dep : component->second.deps) visit(dep);
    way.pop_back();
    done.insert(folder);
  };
  for (const auto& [folder, component] : components) visit(folder);
  return findings;
}

std::vector<std::string> CheckIncludes(const std::vector<Source>& sources, const Components& components) {
  std::vector<std::string> findings;
  std::vector<Include> includes = IncludesOf(sources);
  std::map<std::string, const Package*> leaky = LeakyHeaders(includes);
  for (const Include& include : includes) {
    std::string refusal =
        include.quoted ? RefuseQuoted(include.path, include.name, components) : RefuseAngle(include.path, include.name);
    if (auto found = leaky.find(include.name); include.quoted && found != leaky.end() && refusal.empty() &&
                                               !include.path.starts_with("tests/") &&
                                               !IsDoor(*found->second, include.path)) {
      refusal = "\"" + include.name + "\" brings in " + found->second->prefix + ", which only " +
                Join(found->second->doors) + " may include";
    }
    if (!refusal.empty()) findings.push_back(At(include.path, include.line) + refusal);
  }
  return findings;
}

}  // namespace autotune::law

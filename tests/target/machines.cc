#include "tests/target/machines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace autotune {
namespace {

namespace fs = std::filesystem;

const fs::path kRecords = fs::path(AUTOTUNE_SOURCE_DIR) / "tests/target/machines";

class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {}
  void Take(const std::string& line) {
    std::istringstream words(line);
    std::string kind, first, value;
    words >> kind;
    if (kind == "cpu" || kind == "machine") {
      std::getline(words >> std::ws, value);
      (kind == "cpu" ? processor_ : machine_) += value + "\n";
      return;
    }
    words >> first;
    std::getline(words >> std::ws, value);
    if (kind == "cores") {
      EndCores();
      char dash = 0;
      std::istringstream(first) >> begin_ >> dash >> end_;
    } else if (kind == "cache") {
      for (int core = begin_; core <= end_; ++core) AddCache(core, first, value);
      ++index_;
    } else if (kind == "core") {
      for (int core = begin_; core <= end_; ++core) Write(Cpu(core) / first, value);
    } else if (kind == "file") {
      Write(first, value);
    } else {
      ADD_FAILURE() << "a line of no kind: " << line;
    }
  }
  void Finish() {
    EndCores();
    Write("proc/cpuinfo", info_ + machine_);
  }

 private:
  static fs::path Cpu(int core) { return fs::path("sys/devices/system/cpu/cpu" + std::to_string(core)); }
  void Write(const fs::path& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text << "\n";
  }
  void AddCache(int core, const std::string& level, const std::string& type_and_size) const {
    const fs::path cache = Cpu(core) / "cache" / ("index" + std::to_string(index_));
    std::string type, size;
    std::istringstream(type_and_size) >> type >> size;
    Write(cache / "level", level);
    Write(cache / "type", type);
    Write(cache / "size", size);
  }
  void EndCores() {
    for (int core = begin_; core <= end_; ++core)
      info_ += "processor\t: " + std::to_string(core) + "\n" + processor_ + "\n";
    processor_.clear();
    index_ = 0;
    end_ = -1;
  }

  fs::path folder_;
  std::string info_, processor_, machine_;
  int begin_ = 0, end_ = -1, index_ = 0;
};

}  // namespace

std::vector<std::string> RecordedMachines() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRecords)) names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

void WriteMachine(const std::string& name, const std::string& folder) {
  std::ifstream record(kRecords / (name + ".txt"));
  ASSERT_TRUE(record) << name;
  Writer writer(folder);
  for (std::string line; std::getline(record, line);)
    if (!line.empty() && line[0] != '#') writer.Take(line);
  writer.Finish();
}

std::string MachineFolder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("autotune-machine-" + std::to_string(getpid())) / name;
  fs::remove_all(folder);
  WriteMachine(name, folder);
  return folder;
}

}  // namespace autotune

// Calibration: a device server times fixed kernels, to notice that its device has become slower. It compares their
// times with those of the same device in the last seven days. Plain values without clock and files, except where a
// function says otherwise.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune::rpc {

// What the kernels of RunCalibration exercise, in the order of their times.
inline constexpr const char* kCalibrationKernels[] = {"arithmetic", "copying"};

// Times the kernels: a loop of multiply-adds in registers and a copy of 16 MiB, on one core, each the least of
// several repeats; about 0.1 s together. There is no time without memory for the copy. On a CUDA device only the
// arithmetic, by the reference kernel of the clock (Device::Settle). There is no time on an OpenCL device, which has no
// kernel of known work yet.
Status RunCalibration(Device* device, std::vector<double>& seconds);

// Names the program of the kernels: another compiler may make faster ones.
std::string CalibrationKernels();

class CalibrationHistory {
 public:
  struct Entry {
    int64_t at = 0;               // wall clock, milliseconds since 1970
    std::string what;             // the device and the kernels; only equal ones are compared
    std::vector<double> seconds;  // by kernel
    AUTOTUNE_FIELDS(at, what, seconds)
  };
  static constexpr int64_t kKeptMs = int64_t{7} * 24 * 3600 * 1000;
  static constexpr size_t kMostEntries = 512;  // about three an hour [chosen]
  // Least number of entries before a time is judged: quartiles of fewer are single values. [chosen]
  static constexpr size_t kLeastEntries = 8;
  static constexpr double kLeastChange = 0.05;  // what changes the order of schedules [chosen]

  // Returns why the device is slow; empty if it is as usual, or if there is too little to compare with. The rule is
  // Tukey's outer fence (Exploratory Data Analysis, 1977): a time is slow if it exceeds the upper quartile of the
  // device's own times by more than three times the distance of its quartiles. It must also exceed their median by
  // kLeastChange: the times of a steady device hardly differ. A faster device is as usual.
  std::string Judge(const std::string& what, const std::vector<double>& seconds, int64_t now) const;
  // Adds times that Judge has not found slow. Drops entries that are older than kKeptMs. Drops entries that are later
  // than `now`, too: the clock was changed.
  void Add(const std::string& what, std::vector<double> seconds, int64_t now);

  const std::vector<Entry>& entries() const { return entries_; }

  // Reads or replaces a file. A file that is missing or cannot be read is an empty history.
  static CalibrationHistory Read(const std::string& path);
  Status Write(const std::string& path) const;

 private:
  std::vector<Entry> entries_;  // oldest first
};

}  // namespace autotune::rpc

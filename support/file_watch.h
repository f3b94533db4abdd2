// FileWatch calls a function when a file was replaced or written. Belongs to the thread of its loop.
#pragma once
#include <functional>
#include <string>

#include "support/loop.h"
#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune {

class FileWatch {
 public:
  // Watches the file of this path, which need not exist; its folder must. Error: the folder cannot be watched.
  static Result<std::unique_ptr<FileWatch>> Start(Loop& loop, const std::string& path, std::function<void()> on_change);

 private:
  FileWatch(UniqueFd inotify, std::string name, std::function<void()> on_change)
      : inotify_(std::move(inotify)), name_(std::move(name)), on_change_(std::move(on_change)) {}
  void Read();

  UniqueFd inotify_;
  const std::string name_;  // of the file in its folder
  std::function<void()> on_change_;
  Loop::Watch watch_;
};

}  // namespace autotune

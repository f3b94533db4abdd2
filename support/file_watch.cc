#include "support/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "support/file.h"

namespace autotune {

Result<std::unique_ptr<FileWatch>> FileWatch::Start(Loop& loop, const std::string& path,
                                                    std::function<void()> on_change) {
  UniqueFd inotify(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  std::error_code ignored;
  const std::string target = std::filesystem::weakly_canonical(path, ignored).string();  // ReplaceFile keeps a link
  if (!inotify || inotify_add_watch(inotify.get(), FolderOf(target).c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0)
    return Err("cannot watch ", path, ": ", strerror(errno));
  const std::string name = std::filesystem::path(target).filename();
  std::unique_ptr<FileWatch> watch(new FileWatch(std::move(inotify), name, std::move(on_change)));
  watch->watch_ = loop.OnReadable(watch->inotify_.get(), [raw = watch.get()] { raw->Read(); });
  return watch;
}

void FileWatch::Read() {
  alignas(inotify_event) char bytes[4096];
  bool changed = false;
  for (ssize_t size; (size = read(inotify_.get(), bytes, sizeof bytes)) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(bytes + at);
      // After an overflow of the queue, events are missing.
      changed |= (event->mask & IN_Q_OVERFLOW) || (event->len > 0 && name_ == event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  if (changed) on_change_();
}

}  // namespace autotune

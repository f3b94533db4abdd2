#include "ir/name.h"

#include <mutex>
#include <unordered_set>

namespace autotune {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_set<std::string> texts;  // node-based: addresses are stable
};
constexpr size_t kShards = 16;

}  // namespace

Name::Name(std::string_view text) {
  static Shard* shards = new Shard[kShards];
  Shard& shard = shards[std::hash<std::string_view>()(text) % kShards];
  std::lock_guard lock(shard.mutex);
  text_ = &*shard.texts.emplace(text).first;
}

const std::string& Name::str() const {
  static const std::string* none = new std::string;
  return text_ ? *text_ : *none;
}

}  // namespace autotune

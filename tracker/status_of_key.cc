#include "tracker/status_of_key.h"

namespace autotune {
namespace {

// The room for devices, queue and keys in an answer, which must fit into one frame of 4 MiB.
class Room {
 public:
  // Takes the room of an entry with texts of so many bytes. Returns false if there is none.
  bool Take(size_t text_bytes) {
    constexpr size_t kOfEntry = 512;  // names of fields and numbers
    if (left_ < text_bytes + kOfEntry) {
      ++omitted_;
      return false;
    }
    left_ -= text_bytes + kOfEntry;
    return true;
  }
  int64_t omitted() const { return omitted_; }

 private:
  size_t left_ = 2 << 20;
  int64_t omitted_ = 0;
};

size_t BytesOf(const rpc::DeviceStatus& device) {
  size_t bytes = device.key.size() + device.endpoint.size() + device.model.size() + device.last_error.size() +
                 device.why.size() + device.cores.size() * sizeof(int);
  for (const auto& [status, count] : device.trials) bytes += status.size() + sizeof count;
  return bytes;
}

}  // namespace

rpc::StatusReply StatusOfKey(const rpc::StatusReply& all, const std::string& key) {
  rpc::StatusReply reply{.epoch = all.epoch,
                         .recovering = all.recovering,
                         .uptime_ms = all.uptime_ms,
                         .grants = all.grants,
                         .expired = all.expired,
                         .malformed = all.malformed,
                         .errors = all.errors,
                         .next_key = all.next_key};
  Room room;
  for (const rpc::DeviceHold& hold : all.holds)
    if (room.Take(hold.pattern.size() + hold.note.size() + hold.who.size())) reply.holds.push_back(hold);
  for (const rpc::DeviceStatus& device : all.devices)
    if ((key.empty() || device.key == key) && room.Take(BytesOf(device))) reply.devices.push_back(device);
  for (const rpc::QueueStatus& its : all.queue) {
    const size_t bytes = its.key.size() + its.client_name.size() + its.tenant.size() + its.job.size();
    if ((key.empty() || its.key == key) && room.Take(bytes)) reply.queue.push_back(its);
  }
  for (const auto& [absent, age] : all.absent_keys)
    if (room.Take(absent.size())) reply.absent_keys.emplace(absent, age);
  reply.omitted = all.omitted + room.omitted();
  return reply;
}

}  // namespace autotune

// DeviceInfo: what a device server states about its device, to its tracker and by each grant to the client. A plain
// value; part of messages (rpc/message.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/limits.h"
#include "support/fields.h"
#include "support/machine_description.h"

namespace autotune::rpc {

inline constexpr size_t kMostCores = 4096;   // of a device
inline constexpr size_t kMostEndpoints = 8;  // of a server

// A device beside the CPU, as its driver describes it (DeviceLimits of runtime/device.h).
struct GpuDescription {
  std::string kind;  // "cuda" or "opencl"; empty: kernels run on the CPU
  std::string architecture;
  int64_t units = 0, threads_per_block = 0, shared_bytes = 0, memory_bytes = 0, l2_bytes = 0;
  AUTOTUNE_FIELDS(kind, architecture, units, threads_per_block, shared_bytes, memory_bytes, l2_bytes)
  AUTOTUNE_LIMITS({"kind", kIdBytes}, {"architecture", kNameBytes})
  bool operator==(const GpuDescription&) const = default;
};

struct DeviceInfo {
  std::string key;       // name of this kind of device, by which clients request it; the operator chooses any text
  std::string endpoint;  // address of the server for clients
  // Since 2.4: all its addresses, in the order in which clients try them; empty: only `endpoint`.
  std::vector<std::string> endpoints;
  std::string public_key;  // since 2.4: of the server, if its addresses are TCP
  std::string model;       // the device's own name
  std::string machine;     // "x86_64", "aarch64", ...
  std::vector<int> cores;
  int64_t memory_bytes = 0;
  int64_t pid = 0;
  bool uploads = false;  // since 2.5: large batches are to be uploaded (rpc/upload.h)
  // Since 2.6: the machine on whose CPU kernels run or, with `gpu`, that launches them. Not known from earlier servers.
  MachineDescription description;
  GpuDescription gpu;         // since 2.6
  bool chunk_hashes = false;  // since 2.10: each chunk of an upload has a hash, instead of the upload
  AUTOTUNE_FIELDS(key, endpoint, endpoints, public_key, model, machine, cores, memory_bytes, pid, uploads, description,
                  gpu, chunk_hashes)
  AUTOTUNE_LIMITS({"key", kNameBytes}, {"endpoint", kNameBytes}, {"endpoints", kNameBytes, kMostEndpoints},
                  {"public_key", kIdBytes}, {"model", kNameBytes}, {"machine", kNameBytes}, {"cores", 0, kMostCores})

  bool operator==(const DeviceInfo&) const = default;
  std::vector<std::string> AllEndpoints() const {
    return endpoints.empty() ? std::vector<std::string>{endpoint} : endpoints;
  }
};

}  // namespace autotune::rpc

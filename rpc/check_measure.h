// Checks of a batch or call that a client sends to a device server. Each returns a refusal if it cannot be taken.
#pragma once
#include <optional>
#include <vector>

#include "rpc/message.h"

namespace autotune::rpc {

std::optional<Refusal> CheckCandidates(const MeasureRequest& request);
// Of the blobs that came with the request, or that were uploaded: how many, how large, and the reference's hash.
std::optional<Refusal> CheckBlobs(const MeasureRequest& request, const std::vector<Blob>& blobs);
std::optional<Refusal> CheckUpload(const MeasureRequest& request, const std::vector<Blob>& blobs);
std::optional<Refusal> CheckCall(const Call& call, const std::vector<Blob>& blobs);
// Of a call or its reply: one, of limited size.
std::optional<Refusal> CheckCallBlobs(const std::vector<Blob>& blobs);
int64_t TotalBytes(const std::vector<Blob>& blobs);

}  // namespace autotune::rpc

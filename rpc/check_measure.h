// Checks of a batch that a client sends to a device server. Each returns a refusal if the batch cannot be measured.
#pragma once
#include <optional>
#include <vector>

#include "rpc/message.h"

namespace autotune::rpc {

std::optional<Refusal> CheckCandidates(const MeasureRequest& request);
// Of the blobs that came with the request, or that were uploaded: how many, how large, and the reference's hash.
std::optional<Refusal> CheckBlobs(const MeasureRequest& request, const std::vector<Blob>& blobs);
std::optional<Refusal> CheckUpload(const MeasureRequest& request, const std::vector<Blob>& blobs);

}  // namespace autotune::rpc

// How a member of a farm follows the tracker when it changes its key. The join file has the public key of its time. An
// authenticated tracker tells its next key long before it changes; members keep it in a small file of this user's state
// folder, since join files may be read-only or come from standard input. The file belongs to one join file: its name
// depends on the keys there. Thread-safe.
#pragma once
#include <string>

#include "rpc/address.h"
#include "rpc/message.h"

namespace autotune::rpc {

// Returns the file for a member with this public key whose join file has this key of the tracker.
std::string TrackerKeysFile(const std::string& member_key, const std::string& tracker_key);
// Returns the address with the tracker's keys as they were last kept for it.
Address WithKnownKeys(Address address);
// Keeps the tracker's keys of the address. A file that cannot be written is reported as a warning.
void KeepTrackerKeys(const Address& address);

// Returns what a tracker's message says of its next key; null if it says nothing.
const std::string* NextKeyIn(const Body& body);

}  // namespace autotune::rpc

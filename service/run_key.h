// The identity of a tuning run. `tune` resumes the run that has the identity of its command. Stateless.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tuner/tune.h"

namespace autotune {

// All that two commands must have in common to be parts of one run.
//
// Devices that may replace each other have the same key (docs/wire.md), so the key names the device that measures. The
// tracker's address is left out: a tracker that moved lends the same devices, and their run must go on there.
struct RunIdentity {
  std::string network;  // hash of the model and the options of its import (Network::digest)
  std::string target;   // full text
  std::string device;   // key of the devices that a tracker lends; empty: this machine
  uint64_t seed = 0;
  int trials = 0;
  std::string search;                   // a name of SearchKind
  std::vector<std::string> tasks = {};  // hashes of the tasks to tune; empty: all tasks of the network
  // Plug-ins that decide in place of the program: their commands and versions.
  std::vector<std::string> plugins = {};
  std::vector<std::string> versions = VersionParts();  // of this program
};

// Returns the key by which the run resumes (RunKey in records/record.h).
std::string RunKeyOf(const RunIdentity& run);

}  // namespace autotune

// Recorded machines (tests/target/machines/*.txt): files of /proc and /sys of machines of which there is none here, in
// a compact form. The lines of a record:
//
//   # a comment, with the sources of the facts
//   cores 0-3             cores that have the lines `cpu` and `cache` up to the next line `cores`
//   cpu NAME : VALUE      a line of each of these processors in proc/cpuinfo
//   cache LEVEL TYPE SIZE a cache of each of these cores, in sys/devices/system/cpu
//   core PATH VALUE       a file of each of these cores, below sys/devices/system/cpu/cpuN
//   machine NAME : VALUE  a line at the end of proc/cpuinfo
//   file PATH VALUE       any other file
#pragma once
#include <string>
#include <vector>

namespace autotune {

// Returns the names of all records: "raspberry-pi-4".
std::vector<std::string> RecordedMachines();

// Writes the files of a record below `folder`, which then serves as the root of DescribeMachine.
void WriteMachine(const std::string& name, const std::string& folder);
// Writes them into a folder of this test process, and returns it.
std::string MachineFolder(const std::string& name);

}  // namespace autotune

// The memory that a piece of lowered code works on: the buffers that it uses and the scratch memory that it needs.
// Plain values, the same for all code generators. Thread-safe. Internal to codegen/.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "ir/stmt.h"

namespace autotune {

// A buffer that a function receives as a pointer parameter.
struct PointerParam {
  Name name;
  Buffer buffer;
  bool written = false;
  int64_t alignment = 64;  // of the pointer, in bytes
};

PointerParam PointerOf(const Buffer& buffer, bool written);  // with the alignment that the buffer states

// The buffers that a piece of code reads or writes, and the variables that it uses.
struct Uses {
  std::map<Name, PointerParam> buffers;  // sorted by name
  std::set<Name> vars;
};
Uses UsesOf(const Stmt& s);

// Buffers that share one block of memory, which is allocated when a run starts, or when one task of a parallel loop
// starts. The slots do not overlap, since emitted functions promise the compiler that their pointers do not alias.
struct Workspace {
  struct Slot {
    Buffer buffer;
    int64_t offset;  // in bytes
  };
  std::vector<Slot> slots;
  int64_t bytes = 0;
};
// Lays out the buffers of global scope that `s` allocates outside of its parallel loops.
Workspace LayOut(const Stmt& s);

// The largest workspace on the stack, in bytes. Larger workspaces come from AtContext (runtime/abi.h).
inline constexpr int64_t kMaxStackBytes = 16 << 10;

}  // namespace autotune

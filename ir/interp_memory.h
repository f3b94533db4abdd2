// Memory of the interpreter: elements, whether each was written, and the last accesses to it, for the detection of
// races. Internal to ir/.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/stmt.h"

namespace autotune::interp {

struct Scalar {  // f for floats, i for everything else
  int64_t i = 0;
  double f = 0;
};

// The place in a grid of threads: an index along blockIdx.x, .y, .z, threadIdx.x, .y, .z; -1 outside of the axis'
// loops.
struct ThreadId {
  std::array<int64_t, 6> at{-1, -1, -1, -1, -1, -1};
  int64_t& operator[](LoopKind axis) { return at[static_cast<int>(axis) - static_cast<int>(LoopKind::kBlockX)]; }
  bool operator==(const ThreadId&) const = default;
  std::string Text() const;  // "(blockIdx.x = 1, threadIdx.x = 3)"
};
// Returns true if the same block or thread runs the code at both places. Index 0 of an axis runs the code outside of
// the loops of that axis.
bool SameBlock(const ThreadId& a, const ThreadId& b);
bool SameThread(const ThreadId& a, const ThreadId& b);

// The position of an access: the iterations of the parallel loops around it, outermost first. Every execution of a
// parallel loop, and every stretch between barriers, is an instance of its own. At the first loop where the positions
// of two accesses differ, they are either different iterations of one instance, and then the accesses can happen at the
// same time, or different instances, and then they cannot.
class Paths {
 public:
  static constexpr int kRoot = 0;
  int Enter(int parent, int64_t instance, int64_t iteration) {
    nodes_.push_back({parent, nodes_[parent].depth + 1, nodes_[parent].thread, instance, iteration});
    return static_cast<int>(nodes_.size()) - 1;
  }
  int Enter(int parent, int64_t instance, int64_t iteration, const ThreadId& id) {
    int path = Enter(parent, instance, iteration);
    nodes_[path].thread = static_cast<int>(ids_.size());
    ids_.push_back(id);
    return path;
  }
  const ThreadId& IdOf(int path) const { return ids_[nodes_[path].thread]; }
  // Returns the depth at which two paths become different iterations of one instance; 0 if the paths are ordered.
  int ConcurrentAt(int a, int b) const {
    if (a == b) return 0;
    while (nodes_[a].depth > nodes_[b].depth) a = nodes_[a].parent;
    while (nodes_[b].depth > nodes_[a].depth) b = nodes_[b].parent;
    int depth = 0;
    for (; a != b; a = nodes_[a].parent, b = nodes_[b].parent) {
      const Node &x = nodes_[a], &y = nodes_[b];
      if (x.parent == y.parent) depth = x.instance == y.instance && x.iteration != y.iteration ? x.depth : 0;
    }
    return depth;
  }

 private:
  struct Node {
    int parent, depth, thread;
    int64_t instance, iteration;
  };
  std::vector<Node> nodes_{{kRoot, 0, 0, 0, 0}};
  std::vector<ThreadId> ids_{ThreadId()};
};

struct Memory {
  Buffer buffer;
  std::vector<int64_t> shape, strides;
  std::vector<Scalar> data;
  std::vector<bool> written;
  struct Access {
    int writer = -1, reader = -1, other_reader = -1;  // paths
  };
  std::vector<Access> accesses;  // empty without race detection
  std::vector<int> owners;       // path of the first access to each element, or -1; empty for memory of all threads
  // The number of pending asynchronous stores that write an element (arriving) or read it (leaving). No other access
  // may touch an arriving element or write a leaving one.
  std::unordered_map<int64_t, int> arriving, leaving;

  std::string ElementText(int64_t at) const;  // "b[1, 2]"

  // Each returns the path of an earlier access that conflicts with this one, or -1.
  int Read(int64_t at, int path, const Paths& paths) {
    if (accesses.empty()) return -1;
    Access& a = accesses[at];
    // Two readers suffice: if a write conflicts with any reader, it conflicts with at least one of two concurrent
    // readers.
    if (a.reader < 0 || !paths.ConcurrentAt(a.reader, path)) {
      a.reader = path;
    } else if (a.other_reader < 0 || a.other_reader == a.reader || !paths.ConcurrentAt(a.reader, a.other_reader) ||
               paths.ConcurrentAt(a.reader, path) < paths.ConcurrentAt(a.reader, a.other_reader)) {
      a.other_reader = path;
    }
    return a.writer >= 0 && paths.ConcurrentAt(a.writer, path) ? a.writer : -1;
  }
  int Write(int64_t at, int path, const Paths& paths) {
    if (accesses.empty()) return -1;
    Access& a = accesses[at];
    for (int earlier : {a.writer, a.reader, a.other_reader}) {
      if (earlier >= 0 && paths.ConcurrentAt(earlier, path)) return earlier;
    }
    a.writer = path;
    return -1;
  }
};

// An asynchronous store under way. Its value may land at any moment between its issue and the end of the wait for it.
struct Flight {
  using Element = std::pair<std::shared_ptr<Memory>, int64_t>;
  std::vector<std::pair<Element, Scalar>> writes;
  std::vector<Element> reads;
  bool landed = false;
};
// The asynchronous stores of one thread: the committed groups, oldest first, and the stores that are not yet committed
// (`open`).
struct Flights {
  std::deque<std::vector<Flight>> groups;
  std::vector<Flight> open;
  bool Any() const;
};

}  // namespace autotune::interp

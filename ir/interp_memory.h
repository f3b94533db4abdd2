// Memory of the interpreter: elements, whether each was written, and who touched it last, for race detection. Internal
// to ir/.
#pragma once
#include <string>
#include <vector>

#include "ir/expr.h"

namespace autotune::interp {

struct Scalar {  // f for floats, i for everything else
  int64_t i = 0;
  double f = 0;
};

// Where an access happened: the iterations of the parallel loops around it, outermost first. Every execution of a
// parallel loop is an instance of its own; two accesses can happen at the same time exactly if, at the first loop where
// their paths part, they are different iterations of one instance.
class Paths {
 public:
  static constexpr int kRoot = 0;
  int Enter(int parent, int64_t instance, int64_t iteration) {
    nodes_.push_back({parent, nodes_[parent].depth + 1, instance, iteration});
    return static_cast<int>(nodes_.size()) - 1;
  }
  // The depth at which two paths part as iterations of one loop; 0 if they are ordered.
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
    int parent, depth;
    int64_t instance, iteration;
  };
  std::vector<Node> nodes_{{kRoot, 0, 0, 0}};
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

  // Each returns the path of an earlier access that conflicts with this one, or -1.
  int Read(int64_t at, int path, const Paths& paths) {
    if (accesses.empty()) return -1;
    Access& a = accesses[at];
    // Two readers suffice: of two concurrent ones, at least one is concurrent with any writer that some third is.
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

}  // namespace autotune::interp

// Machine: runs a function. Implemented by ir/interp.cc (statements and expressions), ir/interp_arrays.cc (buffers),
// ir/interp_async.cc (asynchronous stores) and ir/interp_threads.cc (threads with barriers). Internal to ir/.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>

#include "ir/interp.h"
#include "ir/interp_memory.h"
#include "ir/interp_scalar.h"
#include "support/rng.h"

namespace autotune::interp {

using Environment = std::vector<std::pair<Name, std::vector<Scalar>>>;  // variables and their lanes, outermost first
using Memories = std::unordered_map<Name, std::shared_ptr<Memory>>;

struct VirtualThread {
  Environment env;
  ThreadId id;
  int path = Paths::kRoot;
  size_t parent = 0;  // index of the thread that forked it, in its group
  int64_t index = 0;  // the iteration that it runs
  Memories own;       // memory that other threads do not see
  Flights flights;
};

// The virtual threads that run nested loops over threads. There is one group of threads for each of these loops,
// outermost first; group 0 is the thread that reached the outermost loop. A barrier separates the accesses before it
// from those after it, in the paths of all threads (Paths).
class ThreadGroups {
 public:
  ThreadGroups(VirtualThread first, Paths& paths, int64_t& instances, bool track)
      : paths_(paths), instances_(instances), track_(track) {
    levels_.emplace_back();
    levels_[0].push_back(std::move(first));
  }
  std::vector<VirtualThread>& threads() { return levels_.back(); }
  void Fork(const Name& var, LoopKind axis, int64_t extent);
  void Join() { levels_.pop_back(); }
  void Barrier();

 private:
  Paths& paths_;
  int64_t& instances_;
  bool track_;
  std::vector<std::vector<VirtualThread>> levels_;
};

class Machine {
 public:
  Machine(const PrimFunc& f, const InterpOptions& options);
  Status Run(std::vector<InterpArray>& args);

 private:
  bool ok() const { return error_.empty(); }
  void Fail(const std::string& message);

  // Variables.
  void Push(Name var, Scalar value) { env_.emplace_back(var, std::vector<Scalar>{value}); }
  const std::vector<Scalar>* Find(const Name& var) const;

  // Buffers. Locate returns the element that the indices name in one lane: one index per dimension, or a single index
  // in elements of the whole memory. It returns -1 after an error.
  void BindShape(const Buffer& buffer, const InterpArray& array);
  Memory* Declare(const Buffer& buffer);
  void Import(const Param& param, const InterpArray& array);
  void Export(const Param& param, InterpArray& array);
  Memory* Resolve(const Buffer& buffer);
  int64_t Locate(const Memory& memory, const std::vector<Expr>& indices, int lane, const char* what);
  void CheckRace(int earlier, const Memory& memory, int64_t at, const char* what);
  void CheckOwner(Memory& memory, int64_t at);

  // Expressions, one lane at a time.
  int64_t EvalInt(const Expr& e) { return EvalLane(e, 0).i; }
  Scalar EvalLane(const Expr& e, int lane);
  Scalar EvalLoad(const Load& n, int lane);
  Scalar EvalDot(const Call& n, int lane);

  // Statements.
  void Exec(const Stmt& s);
  void ExecStore(const Store& n);
  // Elements and the values that the lanes of a store write to them.
  using Writes = std::vector<std::pair<int64_t, Scalar>>;
  void Write(Memory& memory, const Writes& writes);
  void ExecFor(const For& n);
  void ExecBlock(const Block& n);
  std::vector<int64_t> Order(int64_t extent);
  std::vector<Buffer> OwnAllocs(const For& n);

  // Threads with barriers. `In` calls f as the given thread, and `InEach` calls f as each thread, in any order.
  // `Uniform` evaluates an expression that decides whether threads reach a barrier, and fails if the threads disagree.
  void ExecTogether(const For& n);
  void Together(const For& n, ThreadGroups& groups);
  void Together(const Stmt& s, ThreadGroups& groups);
  void In(VirtualThread& thread, const std::function<void()>& f);
  void InEach(ThreadGroups& groups, const std::function<void()>& f);
  void DeclareInEach(ThreadGroups& groups, const Buffer& buffer);
  // A product of tensor cores, by all warps of the block.
  void Mma(const Store& n, ThreadGroups& groups);
  void MmaOfWarp(const Store& n, std::span<VirtualThread* const> warp);
  int64_t Uniform(ThreadGroups& groups, const Expr& e, const std::string& what);

  // Asynchronous stores of the running thread (ir/interp_async.cc). LandSome completes a random part of the stores
  // under way. Touch checks an access: no store under way may write the element, and if `write`, none may read it.
  void Issue(const Store& n);
  void Commit();
  void Wait(int64_t groups);
  void Land(Flight& flight);
  void LandSome();
  void Touch(const Memory& memory, int64_t at, bool write);
  void CheckAwaited(const Flights& flights, const ThreadId& id);

  const PrimFunc& f_;
  const InterpOptions& options_;
  Rng rng_;
  const bool has_threads_;
  std::string error_;
  Name block_;
  Environment env_;
  Memories memories_;
  Paths paths_;
  int path_ = Paths::kRoot;
  ThreadId id_;
  int64_t instances_ = 0;
  Flights flights_;                                  // of the thread that runs
  std::vector<Flight::Element>* reading_ = nullptr;  // list to which loads add the elements that they read; may be null
};

}  // namespace autotune::interp

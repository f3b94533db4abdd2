// FunctionEmitter: LLVM IR for one lowered function body. Parallel loops become functions of their own, which the same
// class emits. Internal to codegen/llvm; not thread-safe.
#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "arith/analyzer.h"
#include "ir/visit.h"
#include "target/target.h"

namespace autotune {

// Innermost loops over register buffers have basic blocks of this prefix, by which spill remarks are recognised.
inline constexpr const char* kRegisterLoopPrefix = "regloop.";

// Where functions go. `hot` is optimized; `cold` holds straight-line code around it (entry points, thunks), for which
// LLVM's quickest code generation will do: that halves the time of a build. Both live in one context.
struct Modules {
  llvm::Module& hot;
  llvm::Module& cold;
};
// A function seen by both modules and nobody else.
llvm::Function* MakeHidden(llvm::Module& module, llvm::FunctionType* type, const std::string& name);
// `function` as code in `module` calls it.
llvm::Function* SeenFrom(llvm::Module& module, llvm::Function* function);

// A buffer that a function receives as a pointer parameter.
struct PointerParam {
  Name name;
  Buffer buffer;
  bool written = false;
};

// What code reads and writes, names it reads as scalars included.
struct Uses {
  std::map<Name, PointerParam> buffers;  // sorted by name
  std::set<Name> vars;
};
Uses UsesOf(const Stmt& s);

// Buffers allocated in one memory block: at the start of a run, or of one thread's part of a parallel loop.
struct Workspace {
  struct Slot {
    Buffer buffer;
    int64_t offset;
  };
  std::vector<Slot> slots;
  int64_t bytes = 0;
};
// Allocs in s of scope global, not those inside parallel loops. Slots do not overlap: the emitted functions promise
// LLVM that their pointers do not alias.
Workspace LayOut(const Stmt& s);

// A vector of indices: how far each lane lies from `base`. Absent where that is not known.
struct Lanes {
  Expr base;
  std::vector<int64_t> offsets;
};
std::optional<Lanes> LanesOf(const Expr& index);

class FunctionEmitter {
 public:
  FunctionEmitter(Modules modules, const Target& target, std::string prefix);

  // i32 NAME(ptr context, pointers...): hidden, never inlined. Returns 0 or the code of a failed parallel loop.
  // `pointers` are the buffers that `body` uses from outside and its own workspace slots, in this order.
  llvm::Function* EmitBody(const std::string& name, const std::vector<PointerParam>& pointers, const Stmt& body);

  // In the function that `builder` is in: workspace memory as pointers, one per slot, and code that gives it back.
  // A failed allocation returns 1 from that function.
  struct Allocation {
    std::vector<llvm::Value*> pointers;
    llvm::Value* to_free = nullptr;
  };
  static Allocation Allocate(llvm::IRBuilder<>& builder, llvm::Value* context, const Workspace& workspace);
  static void Free(llvm::IRBuilder<>& builder, llvm::Value* context, const Allocation& allocation);

 private:
  struct Slot {
    llvm::Value* pointer = nullptr;
    int64_t elements = 0;
    int64_t alignment = 64;
  };
  // An innermost loop that is being emitted. Its variable times a coefficient is a value of its own that each iteration
  // adds to, so that addresses need no multiplications; LLVM's loop strength reduction, which would find the same,
  // takes longer than all other passes together.
  struct InnerLoop {
    Name var;
    llvm::BasicBlock *before, *header;
    llvm::Value* begin;
    std::map<int64_t, llvm::PHINode*> multiples;  // by coefficient
  };
  struct Guard {  // what must hold for a load to be executed; null: always. Scalar i1 or vector of i1.
    llvm::Value* condition = nullptr;
  };

  // Statements (emitter.cc)
  void Emit(const Stmt& s);
  void EmitFor(const For& loop);
  void EmitLoop(const Name& var, llvm::Value* begin, llvm::Value* end, bool known_nonempty, const std::string& label,
                const Stmt& body);
  llvm::Value* MultipleOf(InnerLoop& loop, int64_t coefficient);
  void EmitIf(const If& branch);
  void EmitStore(const Store& store);
  void EmitAlloc(const Alloc& alloc);
  void EmitPrefetch(const Expr& value);
  void FenceStreams();  // streamed.cc
  void EmitParallel(const For& loop);
  llvm::Function* EmitParallelBody(const For& loop, const std::vector<PointerParam>& pointers,
                                   const std::vector<Name>& scalars);
  void EnterScope();
  void LeaveScope();

  // Expressions (expressions.cc)
  llvm::Value* Value(const Expr& e);
  llvm::Value* ValueOf(const Expr& e);
  llvm::Value* EmitUnary(const Unary& n, const Expr& e);
  llvm::Value* EmitBinary(const Binary& n);
  llvm::Value* EmitDivision(const Binary& n, llvm::Value* a, llvm::Value* b);
  llvm::Value* EmitCast(const Expr& from, DType to);
  llvm::Value* EmitSelect(const Select& n);
  static bool HasGuardedWork(const Expr& e);
  llvm::Value* EmitCall(const Call& n, const Expr& e);
  llvm::Value* EmitLdexp(llvm::Value* x, llvm::Value* n);
  llvm::Value* EmitRamp(const Ramp& n, int lanes);
  llvm::Value* EmitLoad(const Load& n, DType dtype);
  // Lanes within a vector's length of each other (lanes.cc): one vector from memory, permuted. Null where that is not
  // so.
  llvm::Value* LoadNeighbours(const Buffer& buffer, const Lanes& at, llvm::Type* type);
  // The mask of the elements from the lowest lane's on: those that lanes read whose guard holds.
  llvm::Value* ElementsGuarded(llvm::Value* guard, const Lanes& at, int64_t low);
  // Squares of elements that loads of columns read together (tiles.cc): found in the statements of a sequence; a
  // column, null where the load is of none.
  struct Tile {
    const Load* first = nullptr;        // the column that begins first: its lanes are where rows begin
    std::vector<llvm::Value*> columns;  // once one of them has been needed
  };
  void FindTiles(const Seq& seq);
  llvm::Value* ColumnOfTile(const Load& load, llvm::Type* type);
  std::vector<llvm::Value*> Transposed(std::vector<llvm::Value*> rows, int element_bytes);
  llvm::Value* Index(const Expr& e);  // scalar i64

  // base + constant addressing: the variable part is shared between accesses that differ in a constant.
  struct Address {
    llvm::Value* pointer;
    llvm::Align alignment;
  };
  // Stores around the caches, where that is such a store; tells whether it did.
  bool StoreAround(const Store& store, llvm::Value* value, const Address& address);
  Address AddressOf(const Buffer& buffer, const Expr& index);
  Address ElementAt(const Buffer& buffer, llvm::Value* index);
  llvm::Value* FromMemory(llvm::Value* value, DType dtype);
  llvm::Value* ToMemory(llvm::Value* value, DType dtype);

  llvm::Type* MemoryType(DType dtype);
  llvm::Type* ValueType(DType dtype);
  llvm::Value* Splat(llvm::Value* value, int lanes);

  Modules modules_;
  llvm::LLVMContext& context_;
  const Target& target_;
  std::string prefix_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_ = nullptr;
  llvm::Value* at_context_ = nullptr;
  std::unordered_map<Name, Slot> slots_;
  std::unordered_map<Name, Buffer> buffers_;
  std::unordered_map<Name, llvm::Value*> vars_;
  std::unordered_map<Name, int> depth_;  // of a loop variable: outer ones are added to addresses first
  int current_depth_ = 0;
  std::optional<InnerLoop> inner_loop_;
  Analyzer analyzer_;
  Guard guard_;
  // Values of expressions within one statement. Each holds its expression: a freed cell's address would come back for
  // another one.
  struct Memo {
    Expr expr;
    llvm::Value* value;
  };
  std::map<std::pair<const ExprCell*, llvm::Value*>, Memo> memo_;
  std::vector<std::map<std::vector<int64_t>, llvm::Value*>> addresses_;              // by scope
  std::unordered_map<const Load*, std::pair<std::shared_ptr<Tile>, size_t>> tiles_;  // of a sequence; which column
  int next_parallel_ = 0;
  std::set<Name> streamed_;   // buffers written around the caches
  bool in_else_ = false;      // of a statement that has its fast version before it
  bool needs_fence_ = false;  // such a store has been emitted
};

// Layout of AtContext (runtime/abi.h).
llvm::Value* ContextField(llvm::IRBuilder<>& builder, llvm::Value* context, int byte_offset, llvm::Type* type);

}  // namespace autotune

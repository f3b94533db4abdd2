#include "codegen/c/statements.h"

#include "codegen/codegen.h"
#include "codegen/lanes.h"
#include "codegen/loops.h"
#include "codegen/share.h"
#include "codegen/walk.h"
#include "support/check.h"

namespace autotune::c {
namespace {

constexpr const char* kLane = "lane";  // the variable of a loop over the lanes of a statement

// Returns true if some lane of the store may read an element that another lane writes.
bool ReadsOtherLanes(const Store& store) {
  bool found = false;
  WalkOnce(store.value, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    found |= load && load->buffer->name == store.buffer->name && !Equal(load->indices[0], store.indices[0]);
    return !found;
  });
  return found;
}

}  // namespace

std::string Statements::BindParameter(const PointerParam& p) {
  const std::string id = names_.Of(Names::Kind::kBuffer, p.name);
  bindings_.buffers[p.name] = {id, ConstShape(p.buffer)[0]};
  return dialect_.Parameter(p, id);
}

void Statements::Reject(const Buffer& registers, const std::string& why) {
  rejected_ = NotInRegistersMessage(registers->name.str(), why);
}

void Statements::EmitLet(const Let& let) {
  expressions_.StartStatement({let.value});
  const Code value = expressions_.Whole(let.value);
  const std::string id = names_.Fresh(Names::Kind::kVar, let.var);
  writer_.Line("const " + dialect_.Type(let.value.dtype()) + " " + id + " = " + value.text + ";");
  bindings_.vars[let.var] = {id};
  Emit(let.body);
}

void Statements::EmitAlloc(const Alloc& alloc) {
  const Buffer& buffer = alloc.buffer;
  if (buffer->scope == Scope::kGlobal || buffer->scope == Scope::kShared) {
    CHECK(bindings_.buffers.contains(buffer->name)) << "no memory for " << buffer->name;
    return Emit(alloc.body);
  }
  const std::string id = names_.Fresh(Names::Kind::kBuffer, buffer->name);
  if (dialect_.MaxLanes() == 1 || buffer->scope == Scope::kLocal) {
    const int64_t elements = ConstShape(buffer)[0];
    writer_.Line(dialect_.MemoryType(buffer->dtype) + " " + id + "[" + std::to_string(elements) + "];");
    bindings_.buffers[buffer->name] = {id, elements};
    return Emit(alloc.body);
  }
  std::optional<Registers> registers = Registers::For(buffer, alloc.body, dialect_.MaxLanes(), id, names_);
  if (!registers) {
    return Reject(buffer, "its accesses overlap in part");
  }
  for (const Registers::Piece& piece : registers->pieces()) {
    const DType type = buffer->dtype.WithLanes(piece.count);
    writer_.Line(dialect_.Type(type) + " " + piece.id +
                 (piece.in_part ? " = " + dialect_.Vector(type, std::vector<std::string>(type.lanes, "0")) : "") + ";");
  }
  bindings_.registers.insert_or_assign(buffer->name, std::move(*registers));
  Emit(alloc.body);
}

void Statements::EmitFor(const For& loop) {
  if (loop.kind == LoopKind::kParallel || IsBound(loop.kind)) return EmitFork(loop);
  const int64_t* extent = AsInt(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent) bindings_.analyzer.Bind(loop.var, 0, *extent - 1);
  if (extent && *extent == 1) {
    bindings_.vars[loop.var] = {"0"};
    return Emit(loop.body);
  }
  expressions_.StartStatement({loop.extent});
  EmitLoop(loop, "0", expressions_.Atom(loop.extent).text);
}

void Statements::EmitLoop(const For& loop, const std::string& begin, const std::string& end) {
  const std::string id = names_.Of(Names::Kind::kVar, loop.var);
  writer_.Open("for (int64_t " + id + " = " + begin + "; " + id + " < " + end + "; ++" + id + ")");
  if (IsRegisterLoopBody(loop.body)) {
    if (const std::string mark = dialect_.MarkLoop(id); !mark.empty()) writer_.Line(mark);
  }
  bindings_.vars[loop.var] = {id};
  Emit(loop.body);
  writer_.Close();
}

void Statements::EmitIf(const If& branch) {
  expressions_.StartStatement({branch.condition});
  writer_.Open("if (" + expressions_.Value(branch.condition).text + ")");
  Analyzer outside = bindings_.analyzer;
  bindings_.analyzer.Assume(branch.condition);
  Emit(branch.then_body);
  bindings_.analyzer = outside;
  if (branch.else_body) {
    writer_.Else();
    Emit(branch.else_body);
    bindings_.analyzer = std::move(outside);
  }
  writer_.Close();
}

void Statements::EmitEvaluate(const Expr& value) {
  const autotune::Call* call = value.As<autotune::Call>();
  CHECK(call) << "only calls are evaluated";
  if (call->op == Op::kBarrier) return writer_.Line(dialect_.Barrier());
  const Load* load = IsPrefetch(call->op) ? call->args[0].As<Load>() : nullptr;
  CHECK(load) << "only prefetch(load) and barrier() may be evaluated";
  const Ramp* ramp = load->indices[0].As<Ramp>();
  const Expr& index = ramp ? ramp->base : load->indices[0];
  expressions_.StartStatement({index});
  const std::string& pointer = bindings_.buffers.at(load->buffer->name).pointer;
  writer_.Line(dialect_.Prefetch(call->op, pointer, expressions_.Value(index).text));
}

void Statements::EmitStore(const Store& as_written) {
  const Store store{as_written.buffer, as_written.indices, WithSharedTerms(as_written.value)};
  const int lanes = store.value.dtype().lanes;
  expressions_.StartStatement({store.indices[0], store.value});
  if (lanes > 1 && dialect_.MaxLanes() == 1) return EmitLanes(store);
  const std::vector<Chunk> chunks = ChunksOf(lanes, dialect_.MaxLanes());
  const bool first_all = chunks.size() > 1 && ReadsOtherLanes(store);
  std::vector<Code> values;
  for (Chunk chunk : chunks) {
    expressions_.SelectLanes(chunk);
    values.push_back(first_all ? expressions_.Atom(store.value) : expressions_.Whole(store.value));
    if (!first_all) StoreChunk(store, chunk, values.back());
  }
  for (size_t i = 0; first_all && i < chunks.size(); ++i) {
    expressions_.SelectLanes(chunks[i]);
    StoreChunk(store, chunks[i], values[i]);
  }
}

// Emits a vector statement as a loop over its lanes. If a lane reads an element that another lane writes, all values
// are computed into an array first and stored afterwards.
void Statements::EmitLanes(const Store& store) {
  const int lanes = store.value.dtype().lanes;
  const bool wait = ReadsOtherLanes(store);
  const Name var("<lane>");  // differs from the names of all variables of programs
  bindings_.vars[var] = {kLane};
  bindings_.analyzer.Bind(var, 0, lanes - 1);
  const std::string head =
      std::string("for (int64_t ") + kLane + " = 0; " + kLane + " < " + std::to_string(lanes) + "; ++" + kLane + ")";
  expressions_.SelectLanes({0, 1}, IndexVar(var));
  const std::string array = wait ? names_.Fresh(Names::Kind::kOwn, Name("values")) : "";
  if (wait)
    writer_.Line(dialect_.Type(store.value.dtype().Element()) + " " + array + "[" + std::to_string(lanes) + "];");
  writer_.Open(head);
  const Code value = expressions_.Whole(store.value);
  if (!wait) {
    StoreChunk(store, {0, 1}, value);
    return writer_.Close();
  }
  writer_.Line(array + "[" + kLane + "] = " + value.text + ";");
  writer_.Close();
  expressions_.StartStatement({store.indices[0]});
  writer_.Open(head);
  StoreChunk(store, {0, 1}, {array + "[" + kLane + "]"});
  writer_.Close();
}

void Statements::StoreChunk(const Store& store, Chunk chunk, const Code& value) {
  const Expr& index = store.indices[0];
  const DType type = store.buffer->dtype.WithLanes(chunk.count);
  if (auto registers = bindings_.registers.find(store.buffer->name); registers != bindings_.registers.end()) {
    const auto elements = ElementsOf(index, chunk);
    CHECK(elements) << "register buffer " << store.buffer->name << " has an index that is no constant";
    return StoreRegisters(registers->second, *elements, type, value);
  }
  const std::string& pointer = bindings_.buffers.at(store.buffer->name).pointer;
  if (chunk.count == 1) {
    return writer_.Line(pointer + "[" + expressions_.Value(index).text + "] = " + value.text + ";");
  }
  const std::optional<Lanes> known = LanesOf(index);
  if (known) {
    const std::vector<int64_t> offsets(known->offsets.begin() + chunk.begin,
                                       known->offsets.begin() + chunk.begin + chunk.count);
    const std::string to = expressions_.PointerTo(store.buffer, known->base + Expr(offsets[0]));
    if (AreConsecutive(offsets)) return writer_.Line(helpers_.Store(type) + "(" + to + ", " + value.text + ");");
  }
  const std::string vector = expressions_.Temporary(value, dialect_.Type(type)).text;
  for (int i = 0; i < chunk.count; ++i) {
    expressions_.SelectLanes({chunk.begin + i, 1});
    writer_.Line(pointer + "[" + expressions_.Value(index).text + "] = " + dialect_.Lane(vector, std::to_string(i)) +
                 (type.IsBool() ? " != 0;" : ";"));
  }
}

void Statements::StoreRegisters(const Registers& registers, const std::vector<int64_t>& elements, DType type,
                                const Code& value) {
  const Registers::Piece& first = registers.Holding(elements[0]);
  if (elements[0] == first.begin && static_cast<int>(elements.size()) == first.count && AreConsecutive(elements)) {
    return writer_.Line(first.id + " = " + value.text + ";");
  }
  const Code whole = type.lanes == 1 ? value : expressions_.Temporary(value, dialect_.Type(type));
  for (size_t i = 0; i < elements.size(); ++i) {
    const Registers::Piece& piece = registers.Holding(elements[i]);
    std::string lane = type.lanes == 1 ? whole.Under(Level::kPrimary) : dialect_.Lane(whole.text, std::to_string(i));
    if (type.IsBool() && (piece.count == 1) != (type.lanes == 1)) lane = "-" + lane;
    const std::string to =
        piece.count == 1 ? piece.id : dialect_.Lane(piece.id, std::to_string(elements[i] - piece.begin));
    writer_.Line(to + " = " + lane + ";");
  }
}

}  // namespace autotune::c

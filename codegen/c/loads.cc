// The functions of Expressions for loads.
#include <algorithm>

#include "codegen/c/expressions.h"
#include "codegen/lanes.h"
#include "support/check.h"

namespace autotune::c {
namespace {

// Returns the value of an element in memory: a number, or a lane of a mask for bool.
std::string FromMemory(const std::string& element, DType type) {
  if (!type.IsBool()) return element;
  return type.lanes == 1 ? "(" + element + " != 0)" : "-(" + element + " != 0)";
}

}  // namespace

std::string Expressions::PointerTo(const Buffer& buffer, const Expr& index) {
  auto it = bindings_.buffers.find(buffer->name);
  CHECK(it != bindings_.buffers.end()) << "buffer " << buffer->name << " has no memory";
  const Code at = Value(index);
  return at.text == "0" ? it->second.pointer : it->second.pointer + " + " + at.Under(Level::kMul);
}

Code Expressions::ComputeLoad(const Load& n, DType type) {
  if (auto registers = bindings_.registers.find(n.buffer->name); registers != bindings_.registers.end())
    return LoadRegisters(registers->second, n, type);
  const Expr& index = n.indices[0];
  if (type.lanes == 1) return LoadNumber(n, index);
  const Ramp* ramp = index.As<Ramp>();
  if (ramp && IsConst(ramp->stride, 1)) return LoadConsecutive(n, ramp->base + Expr(chunk_.begin), type);
  return LoadLanes(n, type);
}

// Loads a number. Where the guard fails, loads the first element of the buffer instead.
Code Expressions::LoadNumber(const Load& n, const Expr& index) {
  auto it = bindings_.buffers.find(n.buffer->name);
  CHECK(it != bindings_.buffers.end()) << "buffer " << n.buffer->name << " has no memory";
  Code at = Value(index);
  if (guard_ && n.buffer->scope != Scope::kRegister && at.text != "0") {
    const std::string used = guard_->lanes == 1 ? guard_->id : CallOf(helpers_.Any(guard_->lanes), guard_->id).text;
    at = {used + " ? " + at.Under(Level::kOr) + " : 0", Level::kTernary};
  }
  return {FromMemory(it->second.pointer + "[" + at.text + "]", n.buffer->dtype)};
}

Code Expressions::LoadRegisters(const Registers& registers, const Load& n, DType type) {
  const auto elements = ElementsOf(n.indices[0], chunk_);
  CHECK(elements) << "register buffer " << n.buffer->name << " has an index that is no constant";
  const Registers::Piece& first = registers.Holding(elements->front());
  if (elements->front() == first.begin && static_cast<int>(elements->size()) == first.count &&
      AreConsecutive(*elements))
    return {first.id};
  std::vector<std::string> lanes;
  for (int64_t e : *elements) {
    const Registers::Piece& piece = registers.Holding(e);
    std::string lane = piece.count == 1 ? piece.id : dialect_.Lane(piece.id, std::to_string(e - piece.begin));
    // A bool is 1 in an int and -1 in a mask.
    if (n.buffer->dtype.IsBool() && (piece.count == 1) != (type.lanes == 1)) lane = "-" + lane;
    lanes.push_back(std::move(lane));
  }
  if (type.lanes == 1) return {lanes[0], lanes[0][0] == '-' ? Level::kUnary : Level::kPrimary};
  return {dialect_.Vector(type, lanes)};
}

std::string Expressions::MaskOfGuard(int lanes) {
  return guard_->lanes == lanes ? guard_->id : CallOf(helpers_.Splat(DType::Bool().WithLanes(lanes)), guard_->id).text;
}

Code Expressions::LoadConsecutive(const Load& n, const Expr& first, DType type) {
  const BufferMemory& memory = bindings_.buffers.at(n.buffer->name);
  if (!guard_) return CallOf(helpers_.Load(type), PointerTo(n.buffer, first));
  const Code at = Value(first);
  if (guard_->lanes == 1 && memory.elements >= type.lanes) {
    const std::string index = guard_->id + " ? " + at.Under(Level::kOr) + " : 0";
    return CallOf(helpers_.Load(type), memory.pointer + " + (" + index + ")");
  }
  return CallOf(helpers_.LoadMasked(type), memory.pointer + ", " + at.text + ", " + MaskOfGuard(type.lanes));
}

// Loads lanes that are not contiguous in memory.
Code Expressions::LoadLanes(const Load& n, DType type) {
  const Expr& index = n.indices[0];
  const std::string& pointer = bindings_.buffers.at(n.buffer->name).pointer;
  const std::optional<Lanes> known = LanesOf(index);
  if (known) {
    std::vector<int64_t> offsets(known->offsets.begin() + chunk_.begin,
                                 known->offsets.begin() + chunk_.begin + chunk_.count);
    const Expr first = known->base + Expr(offsets[0]);
    if (std::all_of(offsets.begin(), offsets.end(), [&](int64_t o) { return o == offsets[0]; }))
      return ComputeConstant(LoadNumber(n, first), type);
    if (AreConsecutive(offsets)) return LoadConsecutive(n, first, type);
    if (!guard_) {
      const Code from = Named({PointerTo(n.buffer, known->base)}, dialect_.Pointer(n.buffer->dtype, false));
      std::vector<std::string> lanes;
      for (int64_t o : offsets) lanes.push_back(FromMemory(from.text + "[" + std::to_string(o) + "]", type));
      return {dialect_.Vector(type, lanes)};
    }
  }
  const Ramp* ramp = index.As<Ramp>();
  if (ramp && guard_) {
    const Code begin = Value(ramp->base + ramp->stride * Expr(chunk_.begin)), stride = Value(ramp->stride);
    return CallOf(helpers_.LoadStrided(type),
                  pointer + ", " + begin.text + ", " + stride.text + ", " + MaskOfGuard(type.lanes));
  }
  return LoadOneByOne(n, type);
}

// Loads each lane by itself and computes its index as a scalar, since compilers generate slow code for vectors of
// 64-bit indices.
Code Expressions::LoadOneByOne(const Load& n, DType type) {
  const Chunk all = chunk_;
  const std::optional<Guard> guard = guard_;
  std::vector<std::string> lanes;
  for (int i = 0; i < all.count; ++i) {
    SelectLanes({all.begin + i, 1});
    if (guard && guard->lanes > 1) guard_ = Guard{dialect_.Lane(guard->id, std::to_string(i)), 1};
    const Code lane = LoadNumber(n, n.indices[0]);
    lanes.push_back(type.IsBool() ? "-" + lane.text : lane.text);
  }
  SelectLanes(all);
  guard_ = guard;
  return {dialect_.Vector(type, lanes)};
}

}  // namespace autotune::c

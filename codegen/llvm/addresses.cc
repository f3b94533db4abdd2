#include "codegen/llvm/addresses.h"

#include <algorithm>
#include <numeric>

#include "support/check.h"

namespace autotune {
namespace {

constexpr int64_t kGreatestMultiple = 64;  // bytes of the widest vector

// Returns the largest power of two that divides `n`, at most kGreatestMultiple.
int64_t PowerIn(int64_t n) { return n == 0 ? kGreatestMultiple : std::min(n & -n, kGreatestMultiple); }

}  // namespace

Addresses::Address Addresses::Element(const Buffer& buffer, llvm::Value* index) {
  const BufferMemory& memory = bindings_.buffers.at(buffer->name);
  return {builder_.CreateGEP(operations_.MemoryType(buffer->dtype.Element()), memory.pointer, index),
          llvm::Align(buffer->dtype.Bytes()), buffer->dtype.Bytes()};
}

Addresses::Address Addresses::Of(const Buffer& buffer, const Expr& index) {
  auto it = bindings_.buffers.find(buffer->name);
  CHECK(it != bindings_.buffers.end()) << "buffer " << buffer->name << " has no memory";
  Parts parts = Split(index);
  llvm::Value* pointer = Base(buffer, parts);
  const int64_t multiple = PowerIn(parts.divisor * buffer->dtype.Bytes());
  if (parts.constant != 0) {
    pointer = builder_.CreateGEP(operations_.MemoryType(buffer->dtype), pointer, operations_.Index(parts.constant));
  }
  return {pointer, llvm::Align(std::min(multiple, it->second.alignment)), multiple};
}

Addresses::Parts Addresses::Split(const Expr& index) {
  LinearForm form = ToLinear(index);
  Parts parts;
  parts.constant = parts.divisor = form.constant;
  for (const auto& [var, coefficient] : form.Variables()) {
    llvm::Value* value = bindings_.vars.at(var);
    parts.divisor = std::gcd(parts.divisor, coefficient);
    if (auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(value)) {
      parts.constant += coefficient * fixed->getSExtValue();
      continue;
    }
    if (innermost_ && innermost_->var == var) {
      parts.inner = MultipleOf(coefficient);
      continue;
    }
    auto depth = depth_.find(var);
    parts.terms.push_back({depth == depth_.end() ? 0 : depth->second, coefficient, value});
  }
  std::stable_sort(parts.terms.begin(), parts.terms.end(),
                   [](const Term& a, const Term& b) { return a.depth < b.depth; });
  if (const Expr rest = form.Rest()) {
    parts.rest = index_value_(rest);
    parts.divisor = std::gcd(parts.divisor, CommonFactor(rest));
  }
  return parts;
}

llvm::Value* Addresses::Base(const Buffer& buffer, const Parts& parts) {
  llvm::Value* start = bindings_.buffers.at(buffer->name).pointer;
  std::vector<int64_t> key{reinterpret_cast<int64_t>(start)};
  for (const Term& t : parts.terms) {
    key.push_back(reinterpret_cast<int64_t>(t.value));
    key.push_back(t.coefficient);
  }
  key.push_back(reinterpret_cast<int64_t>(parts.rest));
  key.push_back(reinterpret_cast<int64_t>(parts.inner));
  for (size_t scope = bases_.size(); scope-- > 0;) {
    if (auto found = bases_[scope].find(key); found != bases_[scope].end()) return found->second;
  }
  llvm::Type* element = operations_.MemoryType(buffer->dtype);
  llvm::Value* sum = parts.rest;
  for (const Term& t : parts.terms) {
    llvm::Value* term = t.coefficient == 1 ? t.value : builder_.CreateNSWMul(t.value, operations_.Index(t.coefficient));
    sum = sum ? builder_.CreateNSWAdd(sum, term) : term;
  }
  llvm::Value* pointer = sum ? builder_.CreateGEP(element, start, sum) : start;
  if (parts.inner) pointer = builder_.CreateGEP(element, pointer, parts.inner);
  return bases_.back()[key] = pointer;
}

void Addresses::EnterLoop(const Loop& loop) {
  depth_[loop.var] = ++current_depth_;
  if (loop.innermost) innermost_ = loop;
  EnterScope();
}

void Addresses::LeaveLoop() {
  LeaveScope();
  --current_depth_;
  for (auto [coefficient, multiple] : multiples_) {
    llvm::Value* following = builder_.CreateNSWAdd(multiple, operations_.Index(coefficient));
    multiple->addIncoming(following, builder_.GetInsertBlock());
  }
  multiples_.clear();
  innermost_.reset();
}

std::optional<Name> Addresses::InnermostVar() const {
  return innermost_ ? std::optional<Name>(innermost_->var) : std::nullopt;
}

llvm::Value* Addresses::MultipleOf(int64_t coefficient) {
  if (coefficient == 1) return bindings_.vars.at(innermost_->var);
  llvm::PHINode*& multiple = multiples_[coefficient];
  if (!multiple) {
    llvm::IRBuilder<> before(innermost_->before->getTerminator());
    llvm::IRBuilder<> header(innermost_->header, innermost_->header->begin());
    llvm::Value* start = before.CreateNSWMul(innermost_->begin, operations_.Index(coefficient));
    multiple = header.CreatePHI(operations_.IndexType(), 2, innermost_->var.str() + "." + std::to_string(coefficient));
    multiple->addIncoming(start, innermost_->before);
  }
  return multiple;
}

}  // namespace autotune

#include <algorithm>
#include <cmath>

#include "schedule/nest.h"
#include "support/join.h"

namespace autotune {
namespace {

class Printer {
 public:
  explicit Printer(const Nest& nest) : nest_(nest) {}

  std::string Text() {
    for (const Nest::Buffer& buffer : nest_.buffers) PrintBuffer(buffer);
    std::vector<Nest::Index> open;
    for (const Nest::Block& block : nest_.blocks) {
      std::span<const Nest::Index> loops = nest_.LoopsOf(block);
      const size_t shared = static_cast<size_t>(std::ranges::mismatch(open, loops).in1 - open.begin());
      for (size_t i = shared; i < loops.size(); ++i) PrintLoop(nest_.loops[loops[i]], i);
      open.assign(loops.begin(), loops.end());
      PrintBlock(block, loops.size());
    }
    for (const Nest::Prefetch& p : nest_.prefetches) {
      Line(0, "prefetch " + nest_.blocks[p.block].name.str() + " " + nest_.buffers[p.buffer].name.str() + " " +
                  nest_.loops[p.loop].name.str() + " at " + nest_.loops[p.at].name.str() + " ahead " +
                  std::to_string(p.ahead));
    }
    return std::move(out_);
  }

 private:
  void Line(size_t indent, const std::string& text) { out_ += std::string(2 * indent, ' ') + text + "\n"; }

  void PrintBuffer(const Nest::Buffer& buffer) {
    static constexpr const char* kRoles[] = {"input", "constant", "output", "temporary"};
    std::string text = std::string(kRoles[static_cast<int>(buffer.role)]) + " " + buffer.name.str() + ": " +
                       std::to_string(buffer.element_bytes) + " bytes [";
    for (const Nest::Dim& dim : nest_.DimsOf(buffer))
      text += " " + std::to_string(dim.extent) + " by " + std::to_string(dim.stride);
    Line(0, text + " ] " + std::string(ToText(buffer.scope)));
  }

  static std::string ToText(const auto& value) { return std::string(autotune::ToText(value)); }

  void PrintLoop(const Nest::Loop& loop, size_t indent) {
    std::string text = "for " + loop.name.str() + " in " + (loop.symbolic ? "?" : std::to_string(loop.extent));
    if (loop.kind != LoopKind::kSerial) text += " " + ToText(loop.kind);
    if (loop.peeled) text += " peeled";
    if (loop.overlap) text += " overlap";
    Line(indent, text);
  }

  void PrintBlock(const Nest::Block& block, size_t indent) {
    const Arithmetic& a = block.arithmetic;
    std::string text = "block " + block.name.str() + ":";
    for (const auto& [count, name] : {std::pair(a.fma, "fma"),
                                      {a.add, "add"},
                                      {a.multiply, "mul"},
                                      {a.divide, "div"},
                                      {a.compare, "compare"},
                                      {a.select, "select"},
                                      {a.transcendental, "transcendental"}}) {
      if (count > 0) text += " " + std::to_string(std::llround(count)) + " " + name;
    }
    for (const auto& [flag, name] :
         {std::pair(block.has_init, " init"), {block.branches, " branches"}, {block.prepared, " prepared"}})
      text += flag ? name : "";
    Line(indent, text);
    for (const Nest::Iterator& i : nest_.IteratorsOf(block)) {
      std::string original = i.original == i.extent ? "" : " of " + std::to_string(i.original);
      Line(indent + 1, i.name.str() + ": " + ToText(i.kind) + " " + std::to_string(i.extent) + original + " = " +
                           SumText(i.binding));
    }
    for (const Nest::Guard& guard : nest_.GuardsOf(block))
      Line(indent + 1, "if " + Bounded(SumText(guard.value), guard.low, guard.high));
    for (const Nest::Access& access : nest_.AccessesOf(block)) {
      std::string line = std::string(access.reads ? "read " : "") + (access.writes ? "write " : "") +
                         nest_.buffers[access.buffer].name.str() + " [";
      for (const Nest::Sum& subscript : nest_.SubscriptsOf(access)) line += " " + SumText(subscript) + ",";
      Line(indent + 1, line + " ]");
    }
  }

  static std::string Bounded(const std::string& text, int64_t low, int64_t high) {
    return (low > -Nest::kUnbounded ? std::to_string(low) + " <= " : "") + text +
           (high < Nest::kUnbounded ? " <= " + std::to_string(high) : "");
  }

  std::string SumText(const Nest::Sum& sum) {
    std::vector<std::string> parts;
    for (const Nest::Term& term : nest_.TermsOf(sum)) {
      std::string text = term.of == Nest::Of::kLoop       ? nest_.loops[term.index].name.str()
                         : term.of == Nest::Of::kIterator ? nest_.iterators[term.index].name.str()
                                                          : SumText(nest_.sums[term.index]);
      if (term.of == Nest::Of::kSum) text = "(" + text + ")";
      if (term.of == Nest::Of::kOpaque) text = "opaque(" + text + ")";
      if (term.div > 1) text += "//" + std::to_string(term.div);
      if (term.mod > 0) text += "%" + std::to_string(term.mod);
      if (term.coefficient != 1) text = std::to_string(term.coefficient) + "*" + text;
      parts.push_back(text);
    }
    // Sorts the terms, since equal sums may have terms with equal coefficients in different orders.
    std::ranges::sort(parts);
    if (sum.constant != 0 || parts.empty()) parts.push_back(std::to_string(sum.constant));
    const std::string text = Joined(parts, " + ");
    return sum.low > -Nest::kUnbounded || sum.high < Nest::kUnbounded ? "{" + Bounded(text, sum.low, sum.high) + "}"
                                                                      : text;
  }

  const Nest& nest_;
  std::string out_;
};

}  // namespace

std::string ToText(const Nest& nest) { return Printer(nest).Text(); }

}  // namespace autotune

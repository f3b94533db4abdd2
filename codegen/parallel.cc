#include "codegen/parallel.h"

namespace autotune {

std::vector<PointerParam> Captures::Pointers() const {
  std::vector<PointerParam> pointers = buffers;
  for (const Workspace::Slot& slot : workspace.slots) pointers.push_back(PointerOf(slot.buffer, true));
  return pointers;
}

Captures CapturesOf(const For& loop, const std::function<bool(const Name&)>& has_memory,
                    const std::function<bool(const Name&)>& is_defined) {
  Captures captures;
  Uses uses = UsesOf(loop.body);
  for (const auto& [name, p] : uses.buffers) {
    if (has_memory(name)) captures.buffers.push_back(p);
  }
  for (const Name& var : uses.vars) {
    if (is_defined(var) && !(var == loop.var)) captures.scalars.push_back(var);
  }
  captures.workspace = LayOut(loop.body);
  return captures;
}

}  // namespace autotune

// The constants of packages. The tensors take at most as many bytes as the file, and writing and reading them back
// gives the same bytes. Constants that are stored in another form get at most eight times as many.
#include "runtime/stored_params.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(params) {
  auto params = ParseParams(input);
  if (!params.ok()) return;
  std::string bytes = ParamsBytes(*params);
  auto again = ParseParams(bytes);
  CHECK(again.ok()) << again.error().Text();
  CHECK(ParamsBytes(*again) == bytes);
  int64_t held = 0;
  for (const auto& [name, tensor] : *params) held += tensor.num_bytes();
  CHECK(held <= static_cast<int64_t>(input.size()));

  Graph graph;
  for (const auto& [name, tensor] : *params) {
    const std::string whole = name.substr(0, name.rfind('.'));
    const bool halves = DataTypeText(tensor.dtype()) == "u8";
    graph.nodes.push_back({.name = IsStored(*params, whole) ? whole : name,
                           .outputs = {{.dtype = "f32", .shape = {tensor.num_elements() * (halves ? 2 : 1)}}}});
  }
  if (const Result<Params> widened = Widened(graph, *params); widened.ok()) {
    int64_t wide = 0;
    for (const auto& [name, tensor] : *widened) wide += tensor.num_bytes();
    CHECK(wide <= 8 * static_cast<int64_t>(input.size()));
  }
}

}  // namespace autotune

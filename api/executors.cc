// Executors of the C API.
#include <cstddef>

#include "api/handles.h"
#include "package/prepared_model.h"

namespace autotune::api {
namespace {

struct Options {
  KernelThreads threads = 0;
  std::string device;
  UsePrepared share = UsePrepared::kIfAsked;
};

// The size of the options that the first version had.
constexpr size_t kLeastOptions = offsetof(autotune_executor_options, share_weights);

// Returns whether the options of the caller, which may be of an older version, have a member.
template <class T>
bool Has(const autotune_executor_options& options, const T& member) {
  const auto begin = reinterpret_cast<uintptr_t>(&options), end = reinterpret_cast<uintptr_t>(&member + 1);
  return options.size >= end - begin;
}

Result<Options> OptionsOf(const autotune_executor_options* options) {
  if (!options) return Options();
  if (options->size < kLeastOptions)
    return Invalid("the options have no valid size; begin with AUTOTUNE_EXECUTOR_OPTIONS");
  if (options->threads < 0) return Invalid("the number of threads is ", options->threads);
  Options chosen{options->threads, options->device ? options->device : ""};
  if (Has(*options, options->share_weights) && options->share_weights != 0)
    chosen.share = options->share_weights > 0 ? UsePrepared::kYes : UsePrepared::kNo;
  if (Has(*options, options->pool) && options->pool) {
    if (options->threads != 0) return Invalid("the pool has the number of threads; with a pool, `threads` must be 0");
    chosen.threads = KernelThreads(options->pool->pool);
  }
  return chosen;
}

Status Give(Result<LoadedModel> model, autotune_executor** out) {
  LoadedModel loaded = TRY(std::move(model));
  auto session = std::make_unique<Session>(std::move(loaded));
  *out = new autotune_executor{std::move(session)};
  return {};
}

Result<size_t> IndexIn(const std::vector<Session::Port>& ports, int32_t index, const char* what) {
  if (index >= 0 && static_cast<size_t>(index) < ports.size()) return static_cast<size_t>(index);
  return Invalid("there is no ", what, " ", index, "; the network has ", ports.size());
}

autotune_port Describe(const Session::Port& port) {
  return {.name = port.name.c_str(),
          .shape = port.own.shape().data(),
          .ndim = static_cast<int32_t>(port.own.shape().size()),
          .dtype = ToC(port.own.dtype()),
          .size_bytes = port.own.num_bytes()};
}

Result<std::vector<const Tensor*>> TensorsOf(autotune_tensor* const* tensors, int32_t count, const char* what) {
  if (count < 0) return Invalid("a negative number of ", what);
  if (count > 0) TRY(NotNull(tensors, what));
  std::vector<const Tensor*> list;
  for (int32_t i = 0; i < count; ++i) list.push_back(tensors[i] ? &tensors[i]->tensor : nullptr);
  return list;
}

}  // namespace
}  // namespace autotune::api

using namespace autotune;       // NOLINT: the functions of the API lie in the global namespace
using namespace autotune::api;  // NOLINT

extern "C" {

int autotune_executor_load(const char* path, const autotune_executor_options* options, autotune_executor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(path, "path"));
    TRY(NotNull(out, "out"));
    const Options chosen = TRY(OptionsOf(options));
    return Give(LoadFile(path, chosen.threads, chosen.device, chosen.share), out);
  });
}

int autotune_executor_create(const autotune_module* module, const autotune_executor_options* options,
                             autotune_executor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(module, "module"));
    TRY(NotNull(out, "out"));
    const Options chosen = TRY(OptionsOf(options));
    return Give(MakeExecutor(module->module, chosen.threads, chosen.device), out);
  });
}

int32_t autotune_executor_num_inputs(const autotune_executor* executor) {
  return executor ? static_cast<int32_t>(executor->session->inputs().size()) : 0;
}
int32_t autotune_executor_num_outputs(const autotune_executor* executor) {
  return executor ? static_cast<int32_t>(executor->session->outputs().size()) : 0;
}

int autotune_executor_input(const autotune_executor* executor, int32_t index, autotune_port* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    TRY(NotNull(out, "out"));
    const std::vector<Session::Port>& ports = executor->session->inputs();
    *out = Describe(ports[TRY(IndexIn(ports, index, "input"))]);
    return {};
  });
}

int autotune_executor_output(const autotune_executor* executor, int32_t index, autotune_port* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    TRY(NotNull(out, "out"));
    const std::vector<Session::Port>& ports = executor->session->outputs();
    *out = Describe(ports[TRY(IndexIn(ports, index, "output"))]);
    return {};
  });
}

int autotune_executor_input_index(const autotune_executor* executor, const char* name, int32_t* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    TRY(NotNull(name, "name"));
    TRY(NotNull(out, "out"));
    const Result<int64_t> index = executor->session->InputIndex(name);
    if (!index.ok()) return Invalid(index.error().Text());
    *out = static_cast<int32_t>(*index);
    return {};
  });
}

int autotune_executor_set_input(autotune_executor* executor, int32_t index, const autotune_tensor* tensor) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    TRY(NotNull(tensor, "tensor"));
    Session& session = *executor->session;
    return session.SetInput(TRY(IndexIn(session.inputs(), index, "input")), tensor->tensor);
  });
}

int autotune_executor_run(autotune_executor* executor) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    return executor->session->Run();
  });
}

int autotune_executor_get_output(autotune_executor* executor, int32_t index, autotune_tensor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    TRY(NotNull(out, "out"));
    const std::vector<Session::Port>& ports = executor->session->outputs();
    const size_t chosen = TRY(IndexIn(ports, index, "output"));
    *out = new autotune_tensor{ports[chosen].own};
    return {};
  });
}

int autotune_executor_run_with(autotune_executor* executor, autotune_tensor* const* inputs, int32_t num_inputs,
                               autotune_tensor* const* outputs, int32_t num_outputs) {
  return Guard([&]() -> Status {
    TRY(NotNull(executor, "executor"));
    const auto from = TRY(TensorsOf(inputs, num_inputs, "inputs")),
               to = TRY(TensorsOf(outputs, num_outputs, "outputs"));
    return executor->session->RunWith(from, to);
  });
}

void autotune_executor_free(autotune_executor* executor) { Free(executor); }

}  // extern "C"

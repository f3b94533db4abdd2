#include "compiler/aot_source.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "compiler/aot_merge.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr int64_t kSlotBytes = 128;  // of a thread's context, before its scratch memory; at least sizeof(at_slot)

// Offsets in the workspace: a mark if the program prepares constants, values, then the contexts and the scratch memory
// of the first thread and of each further one.
struct Layout {
  int64_t values = 0, first = 0, threads = 0, thread_bytes = 0;
  explicit Layout(const AotPlan& plan)
      : values(plan.prepare.empty() ? 0 : AT_ALIGNMENT),
        first(values + plan.workspace_bytes),
        threads(first + kSlotBytes + plan.scratch_bytes),
        thread_bytes(kSlotBytes + plan.thread_scratch_bytes) {}
};

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// The text for a comment.
std::string Commented(const std::string& text) { return Replaced(OneLine(text), "*/", "* /"); }

std::string CTypeOf(const std::string& dtype) {
  static const std::map<std::string, std::string> types = {
      {"f32", "float"},    {"f64", "double"},   {"f16", "uint16_t"}, {"bf16", "uint16_t"}, {"bool", "uint8_t"},
      {"i8", "int8_t"},    {"i16", "int16_t"},  {"i32", "int32_t"},  {"i64", "int64_t"},   {"u8", "uint8_t"},
      {"u16", "uint16_t"}, {"u32", "uint32_t"}, {"u64", "uint64_t"}};
  const auto found = types.find(dtype);
  return found == types.end() ? "uint8_t" : found->second;
}

int64_t BytesOf(const TensorSpec& spec) { return ShapeBytes(spec.shape, DataTypeFromText(spec.dtype).value()).value(); }

// The macros of one input or output.
std::string PortText(const std::string& name, const std::string& kind, size_t index, const TensorSpec& spec,
                     std::set<std::string>& taken) {
  std::string safe;
  for (char c : spec.name) safe += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  const char* const kSuffixes[] = {"", "_TYPE", "_DIMS", "_SHAPE", "_ELEMENTS", "_BYTES"};
  const auto is_taken = [&](const std::string& port) {
    return std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                       [&](const char* suffix) { return taken.contains(port + suffix); });
  };
  std::string unique = safe;
  for (int i = 2; is_taken(unique); ++i) unique = safe + "_" + std::to_string(i);
  for (const char* suffix : kSuffixes) taken.insert(unique + suffix);
  const std::string prefix = "#define " + name + "_" + kind + "_" + unique;
  int64_t elements = 1;
  std::string shape;
  for (int64_t extent : spec.shape) {
    elements *= extent;
    shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
  }
  std::string text = "\n/* " + Commented(spec.name) + ": " + spec.dtype + ShapeText(spec.shape) + " */\n";
  text += prefix + " " + std::to_string(index) + "\n";
  text += prefix + "_TYPE " + CTypeOf(spec.dtype) + "\n";
  text += prefix + "_DIMS " + std::to_string(spec.shape.size()) + "\n";
  text += prefix + "_SHAPE {" + (shape.empty() ? "1" : shape) + "}\n";
  text += prefix + "_ELEMENTS " + std::to_string(elements) + "\n";
  return text + prefix + "_BYTES " + std::to_string(BytesOf(spec)) + "\n";
}

constexpr char kHeaderBegin[] = R"(#ifndef AUTOTUNE_AOT_@_H
#define AUTOTUNE_AOT_@_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef AUTOTUNE_AOT_THREADS
#define AUTOTUNE_AOT_THREADS
/* The threads of a program. The same type serves all networks. */
typedef struct autotune_threads {
  int32_t num_threads; /* 1 or more */
  /* Calls body(closure, task, thread) for each task in [0, num_tasks), in any order, on any threads, and returns when
   * all have returned. `thread`, from 0 to num_threads - 1, is the number of the thread that calls; no two threads may
   * call with one number at the same time. */
  void (*parallel_for)(void* user, int32_t num_tasks, void (*body)(void* closure, int32_t task, int32_t thread),
                       void* closure);
  void* user; /* the first argument of parallel_for */
} autotune_threads;
#endif
typedef autotune_threads @_threads;

/* The alignment of the workspace, in bytes. Inputs and outputs need that of their elements alone. */
#define @_ALIGNMENT 64

/* The size of the workspace for a number of threads, in bytes; 1 without threads. */
#define @_WORKSPACE_BYTES(threads) ((size_t)%WORKSPACE% + ((size_t)(threads)-1) * (size_t)%THREAD%)

/* The errors of @_run. */
#define @_FAILED 1       /* a kernel failed */
#define @_BAD_ARGUMENT 2 /* a pointer is null or not aligned, or there is no thread */
)";

constexpr char kHeaderEnd[] = R"(
/* Runs the network. Reads `inputs` and writes `outputs`, whose indices and sizes are above; their elements are compact,
 * in row-major order, and no output may overlap an input, another output or the workspace. The workspace holds no state
 * between runs%EXCEPT%. `threads` may be null: the calling thread then does all the work. Allocates nothing.
 * Several threads may call at once, each with a workspace of its own. Returns 0 or an error. */
int32_t @_run(const void* const* inputs, void* const* outputs, void* workspace, const @_threads* threads);

/* A description of the network and of its kernels: JSON. */
extern const char @_metadata[];

#ifdef __cplusplus
}
#endif
#endif
)";

constexpr char kHeaderPrepare[] = R"(
/* The network was compiled on another kind of machine, so its constants are prepared on this one. Call this function
 * once for a workspace, before its first run. Returns 0 or an error. */
#define @_NEEDS_PREPARE 1
#define @_NOT_PREPARED 3 /* an error of @_run */
int32_t @_prepare(void* workspace);
)";

// Asks Linux for the registers of AMX (arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). Needs no C library.
constexpr char kTiles[] = R"(
static int at_may_use_tiles(void) {
  static volatile int asked = 0;
  long result;
  if (asked) return 1;
  __asm__ volatile("syscall" : "=a"(result) : "a"(158L), "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  if (result == 0) asked = 1;
  return result == 0;
}
)";

constexpr char kContext[] = R"(
typedef struct AtContext AtContext;
struct AtContext {
  uint32_t version;
  uint32_t num_threads;
  int32_t (*parallel_for)(AtContext*, int32_t num_tasks, int32_t (*body)(AtContext*, void* closure, int32_t task),
                          void* closure);
  void* (*workspace_alloc)(AtContext*, uint64_t bytes);
  void (*workspace_free)(AtContext*, void* memory);
  void (*set_error)(AtContext*, const char* message);
};
)";

constexpr char kRuntime[] = R"(
void* memcpy(void*, const void*, size_t);

/* A thread of a run, at the begin of its part of the workspace. Its scratch memory follows. */
typedef struct {
  AtContext context;
  const @_threads* threads;
  char *workspace, *top, *end;
  int32_t in_region, code;
} at_slot;
typedef char at_slot_fits[sizeof(at_slot) <= %SLOT% ? 1 : -1];

/* A parallel loop that runs. */
typedef struct {
  char* workspace;
  int32_t (*body)(AtContext*, void*, int32_t);
  void* closure;
} at_region;

static at_slot* at_slot_of(char* workspace, int32_t thread) {
  char* further = workspace + %THREADS%;
  return (at_slot*)(thread == 0 ? workspace + %FIRST% : further + (size_t)(thread - 1) * %THREAD%);
}

static void at_run_task(void* closure, int32_t task, int32_t thread) {
  const at_region* region = (const at_region*)closure;
  at_slot* slot = at_slot_of(region->workspace, thread);
  int32_t code;
  slot->in_region = 1;
  code = region->body(&slot->context, region->closure, task);
  slot->in_region = 0;
  if (code != 0) slot->code = code;
}

static int32_t at_parallel_for(AtContext* context, int32_t num_tasks, int32_t (*body)(AtContext*, void*, int32_t),
                               void* closure) {
  at_slot* slot = (at_slot*)context;
  at_region region;
  int32_t i, code = 0;
  if (slot->in_region || context->num_threads == 1 || num_tasks <= 1) {
    for (i = 0; i < num_tasks; ++i) {
      const int32_t failed = body(context, closure, i);
      if (code == 0) code = failed;
    }
    return code;
  }
  region.workspace = slot->workspace;
  region.body = body;
  region.closure = closure;
  slot->threads->parallel_for(slot->threads->user, num_tasks, at_run_task, &region);
  for (i = 0; i < (int32_t)context->num_threads; ++i) {
    at_slot* other = at_slot_of(slot->workspace, i);
    if (code == 0) code = other->code;
    other->code = 0;
  }
  return code;
}

static void* at_allocate(AtContext* context, uint64_t bytes) {
  at_slot* slot = (at_slot*)context;
  void* memory = slot->top;
  if (bytes > (uint64_t)(slot->end - slot->top)) return 0;
  bytes = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
  if (bytes > (uint64_t)(slot->end - slot->top)) return 0;
  slot->top += bytes;
  return memory;
}

static void at_free(AtContext* context, void* memory) {
  if (memory) ((at_slot*)context)->top = (char*)memory;
}

static void at_set_error(AtContext* context, const char* message) {
  (void)context;
  (void)message;
}

/* Sets up the threads of a run. Returns the context of the first one. */
static AtContext* at_begin(char* workspace, const @_threads* threads) {
  const int32_t count = threads ? threads->num_threads : 1;
  int32_t i;
  for (i = 0; i < count; ++i) {
    at_slot* slot = at_slot_of(workspace, i);
    slot->context.version = 1;
    slot->context.num_threads = (uint32_t)count;
    slot->context.parallel_for = at_parallel_for;
    slot->context.workspace_alloc = at_allocate;
    slot->context.workspace_free = at_free;
    slot->context.set_error = at_set_error;
    slot->threads = threads;
    slot->workspace = workspace;
    slot->top = (char*)slot + %SLOT%;
    slot->end = slot->top + (i == 0 ? %SCRATCH% : %THREADSCRATCH%);
    slot->in_region = slot->code = 0;
  }
  return &at_slot_of(workspace, 0)->context;
}

static int at_aligned(const void* pointer, uintptr_t bytes) { return pointer != 0 && (uintptr_t)pointer % bytes == 0; }
)";

// Kernels in C have functions that this program may not call.
constexpr char kUnused[] = R"(
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif
)";

// The C expression of an address, of type void*.
std::string AddressText(AotAddress address, const Layout& layout) {
  const std::string at = std::to_string(address.at);
  switch (address.base) {
    case AotBase::kNone:
      return "0";
    case AotBase::kInput:
      return "(void*)inputs[" + at + "]";
    case AotBase::kOutput:
      return "outputs[" + at + "]";
    case AotBase::kWorkspace:
      return "w + " + std::to_string(layout.values + address.at);
    case AotBase::kData:
      return "(void*)(at_data + " + at + ")";
  }
  UNREACHABLE();
}

// Returns a C expression for the function of a kernel, with the suffix "raw" or "prepare".
using FunctionName = std::function<std::string(const std::string& kernel, const std::string& suffix)>;

std::string CallText(const AotCall& call, const std::string& suffix, const Layout& layout, const std::string& name,
                     const FunctionName& function) {
  std::string args;
  for (const AotAddress& address : call.args) args += (args.empty() ? "" : ", ") + AddressText(address, layout);
  return "  {\n    void* const args[] = {" + args + "};\n    if (" + function(call.kernel, suffix) +
         "(context, args) != 0) return " + name + "_FAILED;\n  }\n";
}

std::string PrepareText(const std::string& name, const AotPlan& plan, const Layout& layout,
                        const FunctionName& function) {
  if (plan.prepare.empty()) return "";
  std::string text = "\nstatic const char at_mark[] = \"autotune prepared " + name + "\";\n\nint32_t " + name +
                     "_prepare(void* workspace) {\n  char* const w = (char*)workspace;\n  AtContext* context;\n"
                     "  size_t i;\n  if (!at_aligned(workspace, " +
                     name + "_ALIGNMENT)) return " + name + "_BAD_ARGUMENT;\n  context = at_begin(w, 0);\n";
  for (const AotCall& call : plan.prepare) text += CallText(call, "prepare", layout, name, function);
  return text + "  for (i = 0; i < 16; ++i) w[i] = at_mark[i];\n  return 0;\n}\n";
}

std::string RunText(const std::string& name, const PackageInfo& info, const AotPlan& plan, const Layout& layout,
                    const FunctionName& function) {
  const std::string bad = " return " + name + "_BAD_ARGUMENT;\n";
  std::string text =
      "\nint32_t " + name + "_run(const void* const* inputs, void* const* outputs, void* workspace, const " + name +
      "_threads* threads) {\n  char* const w = (char*)workspace;\n  AtContext* context;\n" +
      "  if (!at_aligned(workspace, " + name + "_ALIGNMENT) || (threads && threads->num_threads < 1))" + bad;
  const auto check = [&](const char* array, size_t i, int64_t alignment) {
    const std::string pointer = array + ("[" + std::to_string(i) + "]");
    text += "  if (!at_aligned(" + pointer + ", " + std::to_string(alignment) + "))" + bad;
  };
  for (size_t i = 0; i < info.inputs.size(); ++i)
    if (BytesOf(info.inputs[i]) > 0) check("inputs", i, plan.input_alignment[i]);
  for (size_t i = 0; i < info.outputs.size(); ++i)
    if (BytesOf(info.outputs[i]) > 0) check("outputs", i, plan.output_alignment[i]);
  if (!plan.prepare.empty()) {
    text += "  {\n    size_t i;\n    for (i = 0; i < 16; ++i)\n      if (w[i] != at_mark[i]) return " + name +
            "_NOT_PREPARED;\n  }\n";
  }
  if (plan.asks_for_tiles) text += "  if (!at_may_use_tiles()) return " + name + "_FAILED;\n";
  text += "  context = at_begin(w, threads);\n  (void)context, (void)inputs, (void)outputs;\n";
  for (const AotCall& call : plan.run) text += CallText(call, "raw", layout, name, function);
  for (const AotCopy& copy : plan.copies) {
    if (copy.bytes == 0) continue;
    text += "  memcpy(" + AddressText(copy.to, layout) + ", " + AddressText(copy.from, layout) + ", " +
            std::to_string(copy.bytes) + ");\n";
  }
  return text + "  return 0;\n}\n";
}

// The description of the network, as a C string.
std::string MetadataText(const std::string& name, const PackageInfo& info) {
  Json json;
  json["model_name"] = info.model_name;
  json["executors"] = Json::Array{Json("aot")};
  json["target"] = info.target;
  json["inputs"] = ToJson(info.inputs);
  json["outputs"] = ToJson(info.outputs);
  Json::Array kernels;
  for (const PackagedKernel& kernel : info.kernels) {
    Json& entry = kernels.emplace_back();
    entry["name"] = kernel.name;
    entry["task"] = kernel.task;
    entry["label"] = kernel.label;
    entry["alternative"] = kernel.alternative;
    entry["tuned"] = kernel.tuned;
  }
  json["kernels"] = std::move(kernels);
  std::string text;
  for (char c : json.Dump()) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 0x7f && c != '"' && c != '\\' && c != '?') {
      text += c;
      continue;
    }
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", byte);
    text += octal;
  }
  return "\nconst char " + name + "_metadata[] =\n    \"" + text + "\";\n";
}

// Fills in the names and numbers of a text above.
std::string Filled(std::string text, const std::string& name, const AotPlan& plan) {
  const Layout layout(plan);
  const std::pair<const char*, int64_t> numbers[] = {{"%WORKSPACE%", layout.threads},
                                                     {"%THREAD%", layout.thread_bytes},
                                                     {"%THREADS%", layout.threads},
                                                     {"%FIRST%", layout.first},
                                                     {"%SLOT%", kSlotBytes},
                                                     {"%SCRATCH%", plan.scratch_bytes},
                                                     {"%THREADSCRATCH%", plan.thread_scratch_bytes}};
  for (const auto& [what, number] : numbers) text = Replaced(std::move(text), what, std::to_string(number));
  text = Replaced(std::move(text), "%EXCEPT%", plan.prepare.empty() ? "" : " but the prepared constants");
  return Replaced(std::move(text), "@", name);
}

std::string DriverEnd(const std::string& name, const PackageInfo& info, const AotPlan& plan,
                      const FunctionName& function) {
  const Layout layout(plan);
  return Filled(kRuntime, name, plan) + PrepareText(name, plan, layout, function) +
         RunText(name, info, plan, layout, function) + MetadataText(name, info);
}

// The constants as a C array. Numbers of 64 bits make the shortest text.
std::string DataText(const AotPlan& plan) {
  std::vector<uint64_t> words(static_cast<size_t>(std::max<int64_t>(plan.data_bytes, 8) + 7) / 8);
  for (const AotPiece& piece : plan.data)
    std::memcpy(reinterpret_cast<char*>(words.data()) + piece.at, piece.tensor.data(), piece.tensor.num_bytes());
  std::string text = "\n/* The constants. */\nstatic const uint64_t at_words[] __attribute__((aligned(64))) = {";
  for (size_t i = 0; i < words.size(); ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%s0x%llxu,", i % 8 ? "" : "\n", static_cast<unsigned long long>(words[i]));
    text += number;
  }
  return text + "\n};\n#define at_data ((const char*)at_words)\n";
}

}  // namespace

bool IsCName(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto right = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), right);
}

std::string AotHeader(const std::string& name, const PackageInfo& info, const AotPlan& plan) {
  std::string text = "/* The network " + Commented(info.model_name) + ", compiled by autotune for the target\n   " +
                     Commented(info.target) + " */\n" + Filled(kHeaderBegin, name, plan);
  text += "\n#define " + name + "_NUM_INPUTS " + std::to_string(info.inputs.size()) + "\n#define " + name +
          "_NUM_OUTPUTS " + std::to_string(info.outputs.size()) + "\n";
  std::set<std::string> inputs, outputs;
  for (size_t i = 0; i < info.inputs.size(); ++i) text += PortText(name, "INPUT", i, info.inputs[i], inputs);
  for (size_t i = 0; i < info.outputs.size(); ++i) text += PortText(name, "OUTPUT", i, info.outputs[i], outputs);
  if (!plan.prepare.empty()) text += Filled(kHeaderPrepare, name, plan);
  return text + Filled(kHeaderEnd, name, plan);
}

std::string AotDriver(const std::string& name, const PackageInfo& info, const AotPlan& plan) {
  std::map<std::string, std::string> functions;  // C names, by symbol
  const auto function = [&](const std::string& kernel, const std::string& suffix) {
    return functions.try_emplace(kernel + "." + suffix, "at_kernel" + std::to_string(functions.size())).first->second;
  };
  const std::string end = DriverEnd(name, info, plan, function);
  std::string text = "#include \"" + name + ".h\"\n" + kContext + (plan.asks_for_tiles ? kTiles : "");
  // The object with the constants is made like those of kernels, so without kernels it would not know its machine.
  if (plan.run.empty()) return text + DataText(plan) + end;
  text += "\nextern const char at_data[] __asm__(\"" + name + ".data\") __attribute__((visibility(\"hidden\")));\n";
  for (const auto& [symbol, identifier] : functions) {
    text += "int32_t " + identifier + "(AtContext*, void* const*) __asm__(\"" + name + "." + symbol +
            "\") __attribute__((visibility(\"hidden\")));\n";
  }
  return text + end;
}

std::string AotSource(const std::string& name, const Package& package, const AotPlan& plan) {
  const MergedSources merged = MergeSources(package.sources);
  const auto function = [&](const std::string& kernel, const std::string& suffix) {
    return merged.functions.at(kernel + "." + suffix);
  };
  return "/* The network of " + name +
         ".h, which states the target. C99 with extensions of GCC and Clang. */\n#include \"" + name + ".h\"\n" +
         kUnused + merged.text + (merged.functions.empty() ? kContext : "") + DataText(plan) +
         DriverEnd(name, package.info, plan, function) + merged.end;
}

}  // namespace autotune

#include "codegen/c/cpu/entry.h"

#include "codegen/arguments.h"
#include "codegen/c/c99.h"
#include "codegen/c/cpu/function.h"
#include "codegen/identifiers.h"
#include "runtime/abi.h"
#include "support/join.h"
#include "support/json.h"

namespace autotune::c {
namespace {

// The declarations of runtime/abi.h and dlpack.h that emitted functions use. The emitter replaces DL_CPU and
// AT_ALIGNMENT, and TASKS_PER_THREAD in kTasks, by numbers.
constexpr const char* kAbi =
    R"(/* The context of a call: functions that run parallel loops and allocate scratch memory. */
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

/* A tensor, in the layout of dlpack.h; `dtype` is its type's code, bits and lanes. */
typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint32_t dtype;
  const int64_t* shape;
  const int64_t* strides;
  uint64_t byte_offset;
} AtTensor;

/* The type, the shape and the alignment that an argument must have, and the error message if it has others. */
typedef struct {
  const char* message;
  uint32_t dtype;
  int32_t ndim;
  uint32_t alignment;
  const int64_t* shape;
} AtArgument;

/* Returns the elements of a tensor, or 0 if the tensor does not match the argument. */
static void* at_check(const AtTensor* tensor, const AtArgument* argument) {
  if (!tensor || !tensor->data || tensor->device_type != DL_CPU) return 0;
  if (tensor->dtype != argument->dtype || tensor->ndim != argument->ndim) return 0;
  int64_t compact = 1;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    const int64_t extent = tensor->shape[d];
    if (extent != argument->shape[d]) return 0;
    if (tensor->strides && extent != 1 && tensor->strides[d] != compact) return 0;
    compact *= extent;
  }
  uint8_t* elements = (uint8_t*)tensor->data + tensor->byte_offset;
  return (uintptr_t)elements % argument->alignment == 0 ? elements : 0;
}
)";

constexpr const char* kTasks = R"(/* Returns the number of tasks for a parallel loop. */
static int32_t at_tasks(const AtContext* context, int32_t most) {
  if (context->num_threads <= 1) return 1;
  const uint64_t tasks = (uint64_t)context->num_threads * TASKS_PER_THREAD;
  return tasks < (uint64_t)most ? (int32_t)tasks : most;
}
)";

void Replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
}

// Returns the bytes as a string literal.
std::string Quoted(const std::string& bytes) {
  std::string text = "\"";
  for (unsigned char ch : bytes) {
    if (ch >= 32 && ch < 127 && ch != '"' && ch != '\\' && ch != '?') {  // ??x is another character in C99
      text += static_cast<char>(ch);
      continue;
    }
    const char octal[] = {'\\', static_cast<char>('0' + ch / 64), static_cast<char>('0' + ch / 8 % 8),
                          static_cast<char>('0' + ch % 8)};
    text.append(octal, sizeof octal);
  }
  return text + "\"";
}

// Returns the end of a function's declaration, which sets the function's symbol if it differs from the name in C. A
// symbol with unusual characters is quoted. Assemblers then accept all characters except quotes, backslashes and
// control characters.
std::string SymbolLabel(const std::string& id, const std::string& symbol) {
  if (id == symbol) return "";
  bool plain = !std::isdigit(static_cast<unsigned char>(symbol[0]));
  for (unsigned char ch : symbol) plain &= std::isalnum(ch) || ch == '_' || ch == '.';
  return " __asm__(" + Quoted(plain ? symbol : "\"" + symbol + "\"") + ")";
}

bool CanBeSymbol(const std::string& name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](unsigned char ch) {
    return ch == '"' || ch == '\\' || ch < ' ' || ch == 127;
  });
}

class SourceEmitter {
 public:
  SourceEmitter(const LoweredKernel& kernel, const Target& target, const std::vector<std::string>& features)
      : kernel_(kernel),
        target_(target),
        features_(features),
        dialect_(target),
        helpers_(dialect_, target),
        name_(kernel.name.str()),
        id_(IdentifierOf(name_)) {}

  Source Emit() {
    EmitRaw("raw", "runs the kernel; args: the data of the parameters, then the prepared buffers", kernel_.run);
    if (kernel_.prepare) {
      EmitRaw("prepare", "fills the prepared buffers; args: the data of the constant parameters, then these buffers",
              *kernel_.prepare);
    }
    EmitChecked();
    if (!rejected_.empty()) return {"", rejected_};
    const std::string body = helpers_.text() + functions_;
    std::string text = "/* Kernel " + id_ + ", for the target\n   " + target_.Text() +
                       "\n   C99 with extensions of GCC and Clang. It calls no library. */\n";
    text += dialect_.Prelude(body, features_) + kAbi + "\n";
    if (functions_.find("at_tasks(") != std::string::npos) text += std::string(kTasks) + "\n";
    Replace(text, "DL_CPU", std::to_string(kDlCpu));
    Replace(text, "AT_ALIGNMENT", std::to_string(AT_ALIGNMENT));
    Replace(text, "TASKS_PER_THREAD", std::to_string(kTasksPerThread));
    if (!helpers_.text().empty()) text += "/* Operations that C has no operators for. */\n" + helpers_.text() + "\n";
    return {text + functions_ + dialect_.Epilogue(), ""};
  }

 private:
  // int32_t NAME.entry(AtContext*, void* const* args): allocates scratch memory and calls the body.
  void EmitRaw(const std::string& entry, const std::string& purpose, const PrimFunc& f) {
    const auto [pointers, params, workspace] = BodyPointersOf(kernel_, f);
    std::string arguments = "context";
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string type = dialect_.Pointer(pointers[i].buffer->dtype, pointers[i].written);
      arguments += ", (" + type + ")args[" + std::to_string(params[i]) + "]";
    }
    const std::string prefix = id_ + "_" + entry;
    CpuFunction body(dialect_, helpers_, prefix);
    functions_ += body.EmitBody(pointers, f.body);
    if (!body.rejected().empty()) rejected_ = body.rejected();

    Writer w;
    Names names(prefix);
    const std::string head = "int32_t " + prefix + "(AtContext* context, void* const* args)";
    w.Line("/* " + Comment(name_ + "." + entry) + ": " + purpose + ". */");
    w.Line(head + SymbolLabel(prefix, name_ + "." + entry) + ";");
    w.Open(head);
    const Scratch scratch = AllocateScratch(w, names, dialect_, workspace, prefix);
    for (const std::string& pointer : scratch.pointers) arguments += ", " + pointer;
    w.Line("const int32_t code = " + prefix + "_body(" + arguments + ");");
    FreeScratch(w, scratch);
    if (arguments.find("args[") == std::string::npos) w.Line("(void)args;");
    w.Line("return code;");
    w.Close();
    functions_ += w.text() + "\n";
  }

  // int32_t NAME(AtContext*, const DLTensor* const* args, int32_t num_args)
  void EmitChecked() {
    const std::vector<ExpectedArgument> expected = ExpectedArgumentsOf(kernel_);
    Writer w;
    std::vector<std::string> rows;
    w.Line("/* The types and shapes that the arguments of " + id_ + " must have. */");
    for (size_t i = 0; i < expected.size(); ++i) {
      const ExpectedArgument& e = expected[i];
      const std::string array = id_ + "_shape" + std::to_string(i);
      w.Line("static const int64_t " + array + "[] = {" + (e.shape.empty() ? "0" : Joined(e.shape)) + "};");
      rows.push_back("{" + Quoted(e.message) + ", " + std::to_string(PackedDlType(e.dtype)) + "u, " +
                     std::to_string(e.shape.size()) + ", " + std::to_string(e.alignment) + ", " + array + "},");
    }
    const std::string count = std::to_string(expected.size()), table = id_ + "_arguments";
    w.Open("static const AtArgument " + table + "[" + count + "] =");
    for (const std::string& row : rows) w.Line(row);
    w.Close(";");
    w.Line("");
    const std::string head = "int32_t " + id_ + "(AtContext* context, const AtTensor* const* args, int32_t num_args)";
    w.Line("/* " + Comment(name_) +
           ": checks its arguments (the parameters, then the prepared buffers) and runs the kernel. */");
    if (id_ != name_) w.Line(head + SymbolLabel(id_, name_) + ";");
    w.Open(head);
    w.Line("void* elements[" + count + "];");
    w.Open("if (num_args != " + count + ")");
    w.Line("context->set_error(context, " + Quoted(WrongCountMessage(kernel_)) + ");");
    w.Line("return 2;");
    w.Close();
    w.Open("for (int32_t i = 0; i < " + count + "; ++i)");
    w.Line("elements[i] = at_check(args[i], &" + table + "[i]);");
    w.Open("if (!elements[i])");
    w.Line("context->set_error(context, " + table + "[i].message);");
    w.Line("return 2;");
    w.Close();
    w.Close();
    w.Line("return " + id_ + "_raw(context, elements);");
    w.Close();
    functions_ += w.text();
  }

  // Returns `text` with '_' in place of all characters that could end a comment.
  static std::string Comment(const std::string& text) {
    std::string plain;
    for (unsigned char ch : text) plain += std::isalnum(ch) || ch == '_' || ch == '.' ? static_cast<char>(ch) : '_';
    return plain;
  }

  const LoweredKernel& kernel_;
  const Target& target_;
  const std::vector<std::string>& features_;
  C99 dialect_;
  Helpers helpers_;
  std::string name_, id_;
  std::string functions_, rejected_;
};

}  // namespace

Result<Source> KernelSource(const LoweredKernel& kernel, const Target& target,
                            const std::vector<std::string>& features) {
  if (!CanBeSymbol(kernel.name.str())) {
    return Err("a kernel for a C compiler needs a name without quotes, backslashes and control characters, not ",
               Quoted(kernel.name.str()));
  }
  return SourceEmitter(kernel, target, features).Emit();
}

std::string MetadataUnit(const ArtifactMetadata& metadata) {
  return "/* The metadata of this library's kernels (runtime/artifact.h). */\n"
         "extern const char autotune_metadata[] __asm__(\"autotune.metadata\");\nconst char autotune_metadata[] =\n   "
         " " +
         Quoted(ToJson(metadata).Dump()) + ";\n";
}

}  // namespace autotune::c

// The functions of compiler_c_api.h. Their errors are kept by the runtime library, which this library links like any
// other program: it uses the functions of autotune/c_api.h only.
#include "service/compiler_c_api.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "costmodel/feature_names.h"
#include "records/open.h"
#include "service/c_errors.h"
#include "service/compile.h"
#include "service/event_json.h"
#include "service/named_options.h"
#include "service/record_export.h"
#include "service/tune.h"

struct autotune_request {
  autotune::NamedOptions options;
};
struct autotune_tune {
  std::unique_ptr<autotune::TuneRun> run;
  std::string text;  // of the latest event
};
struct autotune_database {
  std::unique_ptr<autotune::RecordStore> store;
};

namespace autotune {
namespace {

Status Give(const std::string& text, char** out) {
  if (!out) return {};
  char* copy = strdup(text.c_str());
  if (!copy) return Error("out of memory", ErrorKind::kOutOfMemory);
  *out = copy;
  return {};
}

CompileRequest CompileRequestOf(const autotune_request& request) {
  return {.model = request.options.tune.model, .schedules = request.options.schedules};
}

// Returns the full text of a target, with which records are stored. A text that does not parse is one of another
// version.
std::string FullTarget(const char* text) {
  const Result<Target> target = Target::Parse(text);
  return target.ok() ? target->Text() : text;
}

// Null: all tasks, or all targets.
RecordFilter FilterOf(const char* task, const char* target) {
  RecordFilter filter;
  if (task) filter.task = task;
  if (target) filter.target = FullTarget(target);
  return filter;
}

std::string Lines(const std::vector<Record>& records) {
  std::string lines;
  for (const Record& record : records) lines += ToJson(record).Dump() + "\n";
  return lines;
}

Status OpenDatabase(const char* path, autotune_database** out) {
  const std::string name = path ? path : "";
  auto store = TRY(OpenStore(name, {.create = false}));
  *out = new autotune_database{std::move(store)};
  return {};
}

}  // namespace
}  // namespace autotune

using autotune::Give;
using autotune::Guarded;
using autotune::Needs;
using autotune::Status;

extern "C" {

const char* autotune_compiler_version(void) { return AUTOTUNE_VERSION; }

void autotune_text_free(char* text) { std::free(text); }

int autotune_request_create(autotune_request** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(out, "out"));
    *out = new autotune_request();
    return {};
  });
}

int autotune_request_set(autotune_request* request, const char* name, const char* value) {
  return Guarded([&]() -> Status {
    TRY(Needs(request, "request"));
    TRY(Needs(name, "name"));
    TRY(Needs(value, "value"));
    Status set = autotune::SetOption(request->options, name, value);
    if (!set.ok()) return autotune::Argument(set.error());
    return {};
  });
}

int autotune_request_set_model(autotune_request* request, const char* name, const void* bytes, size_t num_bytes) {
  return Guarded([&]() -> Status {
    TRY(Needs(request, "request"));
    TRY(Needs(name, "name"));
    TRY(Needs(bytes, "bytes"));
    if (num_bytes == 0) return autotune::Argument(autotune::Err("the model has no bytes"));
    request->options.tune.model.model = name;
    request->options.tune.model.bytes.assign(static_cast<const char*>(bytes), num_bytes);
    return {};
  });
}

void autotune_request_free(autotune_request* request) { delete request; }

int autotune_compile_file(const autotune_request* request, const char* path, char** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(request, "request"));
    TRY(Needs(path, "path"));
    autotune::CompileRequest compile = autotune::CompileRequestOf(*request);
    compile.output = path;
    std::vector<std::string> notes;
    compile.on_note = [&](const std::string& note) { notes.push_back(note); };
    autotune::CompiledNetwork made = TRY(autotune::CompileNetwork(compile));
    made.notes.insert(made.notes.begin(), notes.begin(), notes.end());
    return Give(autotune::ToJson(made).Dump(), out);
  });
}

int autotune_compile_module(const autotune_request* request, autotune_module** out) {
  int code = AUTOTUNE_OK;
  const int called = Guarded([&]() -> Status {
    TRY(Needs(request, "request"));
    TRY(Needs(out, "out"));
    const autotune::CompileRequest compile = autotune::CompileRequestOf(*request);
    const autotune::CompiledNetwork made = TRY(autotune::CompileCached(compile));
    code = autotune_module_load(made.package.c_str(), out);
    return {};
  });
  return called == AUTOTUNE_OK ? code : called;
}

int autotune_tune_start(const autotune_request* request, autotune_tune** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(request, "request"));
    TRY(Needs(out, "out"));
    auto run = autotune::TuneRun::Start(request->options.tune);
    if (!run.ok()) return autotune::Argument(run.error());
    *out = new autotune_tune{std::move(*run), ""};
    return {};
  });
}

int autotune_tune_next_event(autotune_tune* tune, int64_t timeout_ms, const char** event) {
  return Guarded([&]() -> Status {
    TRY(Needs(tune, "tune"));
    TRY(Needs(event, "event"));
    const std::optional<double> seconds =
        timeout_ms < 0 ? std::nullopt : std::optional(static_cast<double>(timeout_ms) / 1e3);
    const std::optional<autotune::event::Any> next = tune->run->NextEvent(seconds);
    if (next) {
      tune->text = autotune::EventJson(*next).Dump();
      *event = tune->text.c_str();
      return {};
    }
    if (!tune->run->has_ended()) {
      *event = nullptr;
      return {};
    }
    TRY(tune->run->Finish());
    *event = "";
    return {};
  });
}

int autotune_tune_cancel(autotune_tune* tune) {
  return Guarded([&]() -> Status {
    TRY(Needs(tune, "tune"));
    tune->run->Cancel();
    return {};
  });
}

void autotune_tune_free(autotune_tune* tune) { delete tune; }

int autotune_database_open(const char* path, autotune_database** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(out, "out"));
    return autotune::OpenDatabase(path, out);
  });
}

int autotune_database_best(autotune_database* database, const char* task, const char* target, char** out) {
  return autotune_database_top(database, task, target, 1, out);
}

int autotune_database_top(autotune_database* database, const char* task, const char* target, int32_t n, char** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(database, "database"));
    TRY(Needs(task, "task"));
    TRY(Needs(target, "target"));
    TRY(Needs(out, "out"));
    if (n < 1) return autotune::Argument(autotune::Err("n is ", n, "; it must be 1 or more"));
    return Give(autotune::Lines(TRY(database->store->Top(task, autotune::FullTarget(target), n))), out);
  });
}

int autotune_database_scan(autotune_database* database, const char* task, const char* target, int64_t* cursor,
                           int32_t limit, char** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(database, "database"));
    TRY(Needs(cursor, "cursor"));
    TRY(Needs(out, "out"));
    if (limit < 1) return autotune::Argument(autotune::Err("limit is ", limit, "; it must be 1 or more"));
    const autotune::RecordPage page = TRY(database->store->Scan(autotune::FilterOf(task, target), *cursor, limit));
    TRY(Give(autotune::Lines(page.records), out));
    if (!page.records.empty()) *cursor = page.cursor;
    return {};
  });
}

int autotune_database_features(autotune_database* database, const char* task, const char* target, int64_t* cursor,
                               int32_t limit, char** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(database, "database"));
    TRY(Needs(cursor, "cursor"));
    TRY(Needs(out, "out"));
    if (limit < 1) return autotune::Argument(autotune::Err("limit is ", limit, "; it must be 1 or more"));
    const autotune::RecordPage page = TRY(database->store->Scan(autotune::FilterOf(task, target), *cursor, limit));
    autotune::RecordFeatures reader;  // of this call, since calls may overlap
    std::string lines;
    for (const autotune::Record& record : page.records) {
      autotune::Result<autotune::Features> computed = reader.Of(record);
      std::optional<autotune::Features> features;
      if (computed.ok()) features = std::move(*computed);
      lines += autotune::RecordWithFeatures(record, features).Dump() + "\n";
    }
    TRY(Give(lines, out));
    if (!page.records.empty()) *cursor = page.cursor;
    return {};
  });
}

int autotune_feature_names(char** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(out, "out"));
    autotune::Json::Array names;
    for (const autotune::FeatureName& name : autotune::FeatureNames()) names.push_back(name.name);
    return Give(autotune::Json(std::move(names)).Dump(), out);
  });
}

int autotune_database_tasks(autotune_database* database, char** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(database, "database"));
    TRY(Needs(out, "out"));
    std::string lines;
    for (const autotune::TaskSummary& summary : TRY(database->store->Tasks())) {
      autotune::Json line;
      line["task"] = summary.task;
      line["target"] = summary.target;
      line["records"] = summary.records;
      line["trials"] = summary.trials;
      line["ranked"] = summary.ranked;
      lines += line.Dump() + "\n";
    }
    return Give(lines, out);
  });
}

void autotune_database_free(autotune_database* database) { delete database; }

}  // extern "C"

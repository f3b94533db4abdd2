#include "tools/autotune/report/load.h"

#include <fstream>

#include "package/package.h"
#include "support/file.h"
#include "support/utf8.h"
#include "tools/autotune/report/page.h"

namespace autotune::tools::report {
namespace {

// Returns the first bytes of a file.
Result<std::string> BeginOf(const std::string& path) {
  constexpr std::streamsize kBytes = 512;
  std::ifstream in(path, std::ios::binary);
  std::string begin(kBytes, '\0');
  in.read(begin.data(), kBytes);
  if (in.bad() || (in.gcount() == 0 && !in.eof())) return ReadFile(path);  // for its error
  begin.resize(static_cast<size_t>(in.gcount()));
  if (begin.empty()) TRY(ReadFile(path));
  return begin;
}

}  // namespace

Result<Subject> SubjectOf(const std::string& path) {
  const std::string begin = TRY(BeginOf(path));
  if (begin.starts_with(std::string_view("SQLite format 3\0", 16))) return Subject::kDatabase;
  if (begin.starts_with("{") || begin.starts_with("<!DOCTYPE html>")) return Subject::kReport;
  if (begin.starts_with("\x7f"
                        "ELF") ||
      begin.substr(0, 262).ends_with("ustar"))
    return Subject::kPackage;
  if (path.ends_with(".tar") || path.ends_with(".so")) return Subject::kPackage;  // a damaged one, which says how
  if (path.ends_with(".onnx")) return Subject::kModel;
  return Err(path, " is neither a package, a database, a report of autotune, nor an ONNX model (*.onnx)");
}

Result<Report> ReadReport(const std::string& path) {
  const std::string text = TRY(ReadFile(path));
  const Json json = TRY_NOTE(text.starts_with("{") ? Json::Parse(text) : DataOfPage(text), "while reading " + path);
  const std::string* kind = json["kind"].As<std::string>();
  if (!kind || (*kind != "network" && *kind != "database")) {
    return Err(path, " is no report of autotune", kind && *kind == "comparison" ? ", but a comparison of two" : "");
  }
  Report report = TRY_NOTE(FromJson<Report>(json), "while reading " + path);
  if (report.format > kFormat) return Err(path, " is the report of a newer version of autotune");
  return report;
}

}  // namespace autotune::tools::report

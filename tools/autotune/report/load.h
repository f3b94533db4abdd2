// What `autotune report` and `autotune compare` are given, by the content of the file and not by its name.
#pragma once
#include <string>

#include "support/json.h"
#include "support/result.h"
#include "tools/autotune/report/model.h"

namespace autotune::tools::report {

enum class Subject {
  kPackage,   // a compiled network, a tar or a shared object
  kModel,     // an ONNX model
  kDatabase,  // of records
  kReport,    // of this program, as JSON or as a page
};
// Errors: the file cannot be read, or is none of these.
Result<Subject> SubjectOf(const std::string& path);

// Reads a report that `autotune report` wrote, as JSON or as a page. Errors: it is something else, or of a newer
// version.
Result<Report> ReadReport(const std::string& path);

}  // namespace autotune::tools::report

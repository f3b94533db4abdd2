// The page of a report or a comparison: one file of HTML that requests nothing from outside. Its text, its style and
// its scripts are files of this folder, which embed.cmake puts into the program.
#pragma once
#include <string>
#include <string_view>

#include "support/json.h"
#include "support/result.h"
#include "tools/autotune/report/model.h"

namespace autotune::tools::report {

inline constexpr size_t kMostScheduleBytes = 2000000;  // of both reports of a comparison: half as many each

// Returns the page with the data in it. The browser parses the data as JSON and shows texts of it as text, never as
// HTML: in the file, "<" is escaped, so that no text of the data ends the element that holds it.
std::string PageOf(const Json& data);

// Removes the schedules of the fastest kernels until all together have at most this many bytes, so that a page of a
// thousand kernels stays small. --json has them all.
void LimitSchedules(Report& report, size_t bytes = kMostScheduleBytes);

// Returns the data of a page that PageOf made.
Result<Json> DataOfPage(std::string_view page);

}  // namespace autotune::tools::report

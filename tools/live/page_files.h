// The files of the live pages. They lie in this folder and in that of the report; embed.cmake puts them into the
// programs.
#pragma once
#include <vector>

#include "http/site.h"

namespace autotune::tools {

std::vector<http::File> FarmFiles();  // of the page of a tracker
std::vector<http::File> TuneFiles();  // of the page of a tuning run

}  // namespace autotune::tools

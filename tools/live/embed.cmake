# cmake -DLIVE=FOLDER -DREPORT=FOLDER -DCHART=FILE -DOUT=FILE.cc -P embed.cmake
# Writes the files of the live pages as a C++ source (page_files.h). Scripts and styles of the report come first.

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/embed_bytes.cmake)

# add_file(NAME file...): the files, one after the other.
function(add_file name)
  set(all)
  foreach(file ${ARGN})
    file(READ ${file} bytes HEX)
    string(APPEND all "${bytes}")
  endforeach()
  array_of(definition ${name} "${all}")
  set(source "${source}${definition}" PARENT_SCOPE)
endfunction()

# add_page(NAME title file [name]): a page whose body is the file, with @NAME@ replaced.
function(add_page name title file)
  file(READ ${LIVE}/page.html page)
  file(READ ${file} body)
  string(REPLACE "@NAME@" "${ARGN}" body "${body}")
  string(REPLACE "@TITLE@" "${title}" page "${page}")
  string(REPLACE "@BODY@" "${body}" page "${page}")
  file(WRITE ${OUT}.part "${page}")
  add_file(${name} ${OUT}.part)
  file(REMOVE ${OUT}.part)
  set(source "${source}" PARENT_SCOPE)
endfunction()

set(source "// Written by embed.cmake.\n#include \"tools/live/page_files.h\"\n\nnamespace autotune::tools {\nnamespace {\n\n")
set(shared ${LIVE}/strict.js ${REPORT}/format.js ${REPORT}/charts.js ${LIVE}/live.js)
add_page(kFarmHtml "autotune farm" ${LIVE}/live.html farm)
add_page(kTuneHtml "autotune tune" ${LIVE}/live.html tune)
add_page(kLoginHtml "autotune farm: token" ${LIVE}/login.html)
add_file(kStyle ${REPORT}/page.css ${LIVE}/live.css)
add_file(kFarmScript ${shared} ${LIVE}/farm.js)
add_file(kTuneScript ${shared} ${LIVE}/tune.js)
add_file(kChart ${CHART})
add_file(kLicence ${REPORT}/chart_licence.txt)
string(APPEND source [[

constexpr char kHtml[] = "text/html; charset=utf-8", kCode[] = "text/javascript; charset=utf-8";

std::vector<http::File> Shared() {
  return {{"/page.css", "text/css; charset=utf-8", kStyle},
          {"/chart.js", kCode, kChart},
          {"/licence.txt", "text/plain; charset=utf-8", kLicence}};
}

}  // namespace

std::vector<http::File> FarmFiles() {
  std::vector<http::File> files = Shared();
  files.insert(files.end(), {{"/", kHtml, kFarmHtml}, {"/login", kHtml, kLoginHtml}, {"/farm.js", kCode, kFarmScript}});
  return files;
}

std::vector<http::File> TuneFiles() {
  std::vector<http::File> files = Shared();
  files.insert(files.end(), {{"/", kHtml, kTuneHtml}, {"/tune.js", kCode, kTuneScript}});
  return files;
}

}  // namespace autotune::tools
]])
file(WRITE ${OUT} "${source}")

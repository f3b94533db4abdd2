// Console: all that a command of `autotune` prints. Results go to standard output. Status, notes and the live line go
// to standard error, so that a program that reads the results sees nothing else. All of them share the one live line of
// the process: it is erased before they print, and drawn again. Thread-safe.
#pragma once
#include <string>

#include "support/json.h"
#include "support/result.h"
#include "tools/autotune/live_line.h"

namespace autotune::tools {

class Console {
 public:
  static Console& Get();  // the console of this process; call it before the first thread starts

  void SetQuiet(bool quiet) { quiet_ = quiet; }  // call it before anything is printed
  void SetJson(bool json) { json_ = json; }      // results are lines of JSON
  bool quiet() const { return quiet_; }
  bool json() const { return json_; }

  void Result(const std::string& text);   // whole lines
  void Result(const Json& object);        // one line of JSON
  void Report(const std::string& text);   // what a command did, whole lines of results; nothing if quiet or JSON
  void Status(const std::string& line);   // what the program does; nothing if quiet
  void Command(const std::string& line);  // a command to go on with, which is not wrapped; nothing if quiet
  // "note: TEXT", and the command that the text ends with on a line of its own; nothing if quiet
  void Note(const std::string& text, const std::string& command = "");
  void Failure(const Error& error);     // "error: ..." and "hint: ...", also if quiet
  void Alert(const std::string& line);  // what a user must know, also if quiet
  void Live(const std::string& text);   // replaces the live line; nothing if quiet; empty: erases it
  bool HasLive() const { return live_.on_terminal() && !quiet_; }

  bool colours_out() const { return colours_out_; }  // of standard output
  // Returns the columns of standard output; 0 if it is no terminal.
  int WidthOut() const;

 private:
  Console();
  void FollowSize();
  void ToError(const std::string& lines);

  bool quiet_ = false, json_ = false;
  const bool colours_out_, colours_err_;
  LiveLine live_;
};

}  // namespace autotune::tools

// Console: all that a command of `autotune` prints. Results go to standard output. Status, notes and the live line go
// to standard error, so that a program that reads the results sees nothing else. All of them share the one live line of
// the process: it is erased before they print, and drawn again. With --json, each note is also part of the results: of
// the next object, or a line of its own at the end. Thread-safe.
#pragma once
#include <mutex>
#include <string>
#include <vector>

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
  void Result(Json object);               // one line of JSON, with the notes before it as its member `notes`
  void Report(const std::string& text);   // what a command did, whole lines of results; nothing if quiet or JSON
  void Status(const std::string& line);   // what the program does; nothing if quiet
  void Command(const std::string& line);  // a command to go on with, which is not wrapped; nothing if quiet
  // "note: TEXT", and the command that the text ends with on a line of its own; nothing if quiet
  void Note(const std::string& text, const std::string& command = "");
  void ShowNote(const std::string& text);  // the same for standard error alone: the results have the note already
  void EndNotes();                         // with JSON, prints the notes after the last object, a line each
  // "error: ..." and "hint: ...", also if quiet; with JSON also its object
  void Failure(const Error& error, int code);
  void Alert(const std::string& line);            // what a user must know, also if quiet
  void Ended(const std::string& line, int code);  // the same where a signal ends the command; with JSON also an object
  void Live(const std::string& text);             // replaces the live line; nothing if quiet; empty: erases it
  bool HasLive() const { return live_.on_terminal() && !quiet_; }

  bool colours_out() const { return colours_out_; }  // of standard output
  // Returns the columns of standard output; 0 if it is no terminal.
  int WidthOut() const;

 private:
  Console();
  void FollowSize();
  void ToError(const std::string& lines);
  std::vector<std::string> TakeNotes();
  void PrintNote(const std::string& text, const std::string& command);
  void ErrorObject(const std::string& text, const std::vector<std::string>& hints, int code);

  bool quiet_ = false, json_ = false;
  const bool colours_out_, colours_err_;
  LiveLine live_;
  std::mutex notes_mutex_;
  std::vector<std::string> notes_;  // since the last object; protected by the mutex; empty without JSON
};

}  // namespace autotune::tools

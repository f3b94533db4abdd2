// Printers of the events of a tuning run: one for people, one that prints lines of JSON. A printer decides what of an
// event is shown, where and when; it computes nothing about the run. Thread-safe, since waits are reported by any
// thread.
#pragma once
#include <memory>

#include "service/events.h"
#include "tools/autotune/console.h"

namespace autotune::tools {

class EventPrinter {
 public:
  virtual ~EventPrinter() = default;
  virtual void Print(const event::Any& event) = 0;
};

struct PrinterOptions {
  bool verbose = false;  // also prints the target's full text, and why the first candidate was skipped
  bool wide = false;     // prints the whole table, whatever the width of the terminal
};

// Returns the printer for lines of JSON if the console prints JSON, else the one for people: a live line on a terminal,
// a line of status every few seconds elsewhere, and a table at the end.
std::unique_ptr<EventPrinter> MakeEventPrinter(Console& console, PrinterOptions options);

}  // namespace autotune::tools

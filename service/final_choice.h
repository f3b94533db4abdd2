// The final choice of a tuning run: which schedules the network gets, and how long finding that out may take.
#pragma once
#include <atomic>
#include <optional>

#include "compiler/choose.h"
#include "service/events.h"
#include "tuner/tune.h"

namespace autotune {

// Returns the part of a time budget that is left for the search, if a final choice follows it.
double SearchBudget(double time_budget);

// What the choice is about. Borrowed.
struct ChoiceOf {
  const Network& network;
  const Target& target;
  RecordStore& store;
  Builder& builder;
};

// Chooses the schedules of the network by measuring whole networks on `host` (compiler/choose.h), stores the choice,
// and emits its progress. If the measurement fails, adds a note to `report` and returns no value. The caller then takes
// the best record of each task.
Result<std::optional<ChosenNetwork>> ChooseFinally(const ChoiceOf& of, NetworkHost& host, TuneReport& report,
                                                   uint64_t seed, const EventSink& emit,
                                                   const std::atomic<bool>& stop_requested);

}  // namespace autotune

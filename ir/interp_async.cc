// Asynchronous stores. A store reads its value when it is issued. It writes at a moment that the seed chooses, at the
// latest when the thread waits for the store's group. Until then no thread may touch the element, not even the one
// that issued the store; an access is a race. Other threads may touch it after a barrier that follows the wait.
#include "ir/interp_machine.h"

namespace autotune::interp {

bool Flights::Any() const {
  if (!open.empty()) return true;
  for (const std::vector<Flight>& group : groups) {
    if (!group.empty()) return true;
  }
  return false;
}

void Machine::Issue(const Store& n) {
  if (!Resolve(n.buffer)) return;
  const std::shared_ptr<Memory> memory = memories_.at(n.buffer->name);
  const Expr& value = n.value.As<Call>()->args[0];
  Flight flight;
  reading_ = &flight.reads;
  for (int lane = 0; lane < value.dtype().lanes && ok(); ++lane) {
    const int64_t at = Locate(*memory, n.indices, lane, "write");
    flight.writes.push_back({{memory, at}, EvalLane(value, lane)});
  }
  reading_ = nullptr;
  if (!ok()) return;
  for (const auto& [element, scalar] : flight.writes) {
    Touch(*memory, element.second, true);
    CheckRace(memory->Write(element.second, path_, paths_), *memory, element.second, "write");
    CheckOwner(*memory, element.second);
    memory->written[element.second] = false;
    ++memory->arriving[element.second];
  }
  for (const auto& [source, at] : flight.reads) ++source->leaving[at];
  flights_.open.push_back(std::move(flight));
  LandSome();
}

void Machine::Land(Flight& flight) {
  for (const auto& [element, scalar] : flight.writes) {
    element.first->data[element.second] = scalar;
    element.first->written[element.second] = true;
  }
  flight.landed = true;
}

void Machine::LandSome() {
  auto land = [&](std::vector<Flight>& group) {
    for (Flight& flight : group) {
      if (!flight.landed && rng_.Below(2)) Land(flight);
    }
  };
  for (std::vector<Flight>& group : flights_.groups) land(group);
  land(flights_.open);
}

void Machine::Commit() {
  flights_.groups.push_back(std::move(flights_.open));
  flights_.open.clear();
  LandSome();
}

void Machine::Wait(int64_t groups) {
  auto end = [](std::unordered_map<int64_t, int>& under_way, int64_t at) {
    if (--under_way.at(at) == 0) under_way.erase(at);
  };
  while (static_cast<int64_t>(flights_.groups.size()) > groups && ok()) {
    for (Flight& flight : flights_.groups.front()) {
      if (!flight.landed) Land(flight);
      for (const auto& [element, scalar] : flight.writes) {
        end(element.first->arriving, element.second);
        CheckRace(element.first->Write(element.second, path_, paths_), *element.first, element.second, "write");
      }
      for (const auto& [source, at] : flight.reads) end(source->leaving, at);
    }
    flights_.groups.pop_front();
  }
}

void Machine::Touch(const Memory& memory, int64_t at, bool write) {
  if (!options_.detect_races || !ok()) return;
  if (memory.arriving.contains(at))
    return Fail("race: " + memory.ElementText(at) + " is touched while an asynchronous store to it is under way");
  if (write && memory.leaving.contains(at))
    Fail("race: " + memory.ElementText(at) + " is written while an asynchronous store reads it");
}

void Machine::CheckAwaited(const Flights& flights, const ThreadId& id) {
  if (ok() && flights.Any()) Fail("thread " + id.Text() + " ends before its asynchronous stores");
}

}  // namespace autotune::interp

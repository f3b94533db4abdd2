// farm_ledger FOLDER: keeps books of the events that the processes of a farm have written to this folder, and prints
// what they did and each broken promise (scripts/ledger.sh).
#include <cstdio>

#include "tests/simulator/ledger/farm_log.h"

int main(int argc, char** argv) {
  using namespace autotune;
  if (argc != 2) {
    fprintf(stderr, "usage: farm_ledger FOLDER\n");
    return 2;
  }
  const auto ledger = [&]() -> Result<Ledger> { return LedgerOf(TRY(ReadFarmLogs(argv[1]))); }();
  if (!ledger.ok()) {
    fprintf(stderr, "error: %s\n", ledger.error().Text().c_str());
    return 2;
  }
  for (const std::string& violation : ledger->violations()) printf("%s\n", violation.c_str());
  const auto number = [](int64_t n) { return static_cast<long long>(n); };
  printf(
      "%lld candidates issued: %lld accepted, %lld infrastructure; %lld executions, %lld of them repetitions; %lld "
      "leases lost; devices leased for %.1f s; %zu broken promises\n",
      number(ledger->issued()), number(ledger->answered() - ledger->infrastructure()), number(ledger->infrastructure()),
      number(ledger->executions()), number(ledger->repeats()), number(ledger->losses()),
      static_cast<double>(ledger->leased_ms()) / 1000, ledger->violations().size());
  return ledger->violations().empty() ? 0 : 1;
}

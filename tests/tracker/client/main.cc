// farm_client ENDPOINT KEY ARTIFACT COUNT: a client of a farm, without a compiler. Measures the kernel k of a file
// COUNT times on one device, and prints each status that occurs with its number. Tests build it at an earlier commit,
// to see that old and new programs understand each other.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "rpc/client.h"

int main(int argc, char** argv) {
  using namespace autotune;
  if (argc != 5) {
    fprintf(stderr, "usage: farm_client ENDPOINT KEY ARTIFACT COUNT\n");
    return 2;
  }
  std::ifstream file(argv[3], std::ios::binary);
  const auto artifact = rpc::MakeBlob({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  rpc::FarmOptions options;
  options.tracker = argv[1];
  options.key = argv[2];
  options.wait_seconds = 60;
  auto client = rpc::FarmClient::Connect(options);
  if (!client.ok()) {
    fprintf(stderr, "%s\n", client.error().Text().c_str());
    return 1;
  }
  rpc::MeasureJob job;
  job.task.id = "double";
  job.task.seed = 7;
  job.task.reference_kernel = "k";
  job.reference = artifact;
  job.artifacts = {artifact};
  for (int i = 0; i < std::atoi(argv[4]); ++i) {
    rpc::Candidate candidate;
    candidate.id = std::to_string(i);
    candidate.kernel = "k";
    candidate.repeats = 2;
    candidate.min_repeat_ms = 0.1;
    candidate.threads = 1;
    candidate.cold_weights = false;
    job.candidates.push_back(candidate);
  }
  const auto results = (*client)->Measure(std::move(job));
  if (!results.ok()) {
    fprintf(stderr, "%s\n", results.error().Text().c_str());
    return 1;
  }
  std::map<std::string, int> statuses;
  for (const rpc::TrialResult& result : *results) ++statuses[std::string(ToText(result.status))];
  for (const auto& [status, count] : statuses) printf("%s %d\n", status.c_str(), count);
  return 0;
}

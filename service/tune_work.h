// TuneWork: the work of a tuning run (service/tune.h), on the thread that calls Run. Cancel, Abandon and stage may be
// called by any thread.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "compiler/choose.h"
#include "compiler/network_host.h"
#include "service/claimed_run.h"
#include "service/events.h"
#include "service/plugins.h"
#include "service/run_key.h"
#include "service/tune.h"
#include "service/tune_farm.h"
#include "tuner/measurer.h"
#include "tuner/tune.h"

namespace autotune {

class TuneWork {
 public:
  TuneWork(TuneRequest request, EventSink emit);
  ~TuneWork();

  Result<TuneEnd> Run();
  void Cancel();
  void Abandon();
  TuneStage stage() const { return stage_; }
  std::string EndedAtOnceText() const;

 private:
  // The farm of this machine, or the measurer of the device of a tracker's farm.
  struct FarmSession {
    std::unique_ptr<LocalFarm> farm;
    rpc::FarmOptions options;                            // how its devices are reached
    std::function<bool(const rpc::LeaseGranted&)> fits;  // those that the run uses; null: all
    std::unique_ptr<Measurer> measurer;                  // destroyed before the farm
    rpc::FarmClient* client = nullptr;                   // the measurer's
  };

  bool here() const { return !request_.OnFarm(); }  // tunes on this machine
  Result<TuneEnd> PrepareAndSearch();
  Result<TuneEnd> TuneRecording();
  // Before the search.
  Status Prepare();
  Status CheckStop() const;  // an error if a stop was requested
  Status CheckBeforeWait() const;
  Status TakeDevice();
  Status OpenModel();
  Result<ModelRequest> ModelToTune(std::vector<std::string>& notes);
  TuneOptions SearchOptions() const;
  RunIdentity Identity() const;
  Result<std::unique_ptr<ClaimedRun>> Claim();
  Status OpenFarm();
  Status Begin();
  // The search and what follows.
  Result<TuneEnd> Search();
  std::unique_ptr<NetworkHost> NetworkPlace();
  Status Write(TuneReport& report, std::optional<ChosenNetwork> chosen);
  Status WritePackage(std::optional<ChosenNetwork> chosen);
  void EmitNotes(const TuneReport& report) const;
  event::Saved SavedEvent(const event::End& end) const;
  TuneEnd Interrupted(int trials) const;
  bool IsInMemory() const;
  std::string ResumeLine() const;

  TuneRequest request_;
  const EventSink emit_;
  double time_budget_ = 0;  // seconds; 0: no limit
  int trials_ = 0;          // set by Prepare
  std::atomic<TuneStage> stage_ = TuneStage::kOpening;
  std::stop_source stop_;
  std::atomic<bool> stop_requested_ = false;
  std::mutex client_mutex_;
  std::shared_ptr<rpc::FarmClient> early_client_;  // guarded by client_mutex_; the farm's, until the search begins

  std::optional<FarmDevice> device_;  // of the farm, until OpenFarm
  bool is_stated_ = false;            // the farm's device states what it is
  bool chooses_ = false;              // a final choice follows the search
  ModelSetup setup_;
  Network network_;
  std::vector<TuneTask> tasks_;  // those that the request selects
  Plugins plugins_;
  TuneOptions search_;
  std::unique_ptr<ClaimedRun> claimed_;
  FarmSession farm_;
  std::optional<double> peak_;  // FLOPS; unknown for GPUs
};

}  // namespace autotune

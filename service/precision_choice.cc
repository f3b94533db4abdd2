#include "service/precision_choice.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "package/cache_folder.h"
#include "service/precision_search.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/state_folder.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

// A file of this version holds what was chosen.
struct StoredChoice {
  std::string precision;   // ModelRequest::precision
  std::string model_hash;  // of the model in the file beside this one; empty: the request's own one was chosen
  PrecisionChoice choice;
  AUTOTUNE_FIELDS(precision, model_hash, choice)
};

// Gives the request a model instead of its own one, under the same name.
void SetBytes(ModelRequest& request, std::string bytes) {
  if (request.bytes.empty()) request.model = NetworkNameOf(request.model);
  request.bytes = std::move(bytes);
}

// The folder with the choices that were made before.
class ChoiceFolder {
 public:
  static Result<ChoiceFolder> Open(const std::string& key) {
    ChoiceFolder folder;
    folder.path_ = fs::path(UserCacheFolder()) / "precision";
    TRY(MakePrivateFolder(UserCacheFolder()));
    TRY(MakePrivateFolder(folder.path_.string()));
    folder.entry_ = folder.path_ / key;
    return folder;
  }

  std::optional<ChosenModel> Find(const ModelRequest& request) const {
    const Result<std::string> text = ReadFile(File(".json"));
    const Result<Json> json = text.ok() ? Json::Parse(*text) : text.error();
    const Result<StoredChoice> stored = json.ok() ? FromJson<StoredChoice>(*json) : json.error();
    if (!stored.ok() || std::ranges::count(stored->choice.points, true, &PrecisionPoint::chosen) != 1)
      return std::nullopt;
    ChosenModel known{.model = request, .choice = stored->choice, .known = true};
    known.model.precision = stored->precision;
    known.model.bound = {};
    known.model.calibrate.clear();
    if (stored->model_hash.empty()) return known;
    // A run at the same time may have replaced one of the two files.
    Result<std::string> model = ReadFile(File(".onnx"));
    if (!model.ok() || HashBytes128(*model).Hex() != stored->model_hash) return std::nullopt;
    SetBytes(known.model, std::move(*model));
    return known;
  }

  Status Put(const ChosenModel& chosen, bool own_model) const {
    const std::string hash = own_model ? "" : HashBytes128(chosen.model.bytes).Hex();
    const StoredChoice stored{chosen.model.precision, hash, chosen.choice};
    if (!own_model) TRY(ReplaceFile(File(".onnx"), chosen.model.bytes));
    TRY(ReplaceFile(File(".json"), ToJson(stored).Dump()));
    Prune();
    return {};
  }

 private:
  std::string File(const char* ending) const { return fs::path(entry_).replace_extension(ending).string(); }

  void Prune() const {
    constexpr size_t kMost = 8;  // [chosen] models can be large
    std::error_code ignored;
    std::vector<std::pair<fs::file_time_type, fs::path>> entries;
    for (const auto& file : fs::directory_iterator(path_, ignored))
      if (file.path().extension() == ".json") entries.emplace_back(file.last_write_time(ignored), file.path());
    std::sort(entries.begin(), entries.end());
    for (size_t i = 0; i + kMost < entries.size(); ++i) {
      fs::remove(entries[i].second, ignored);
      fs::remove(entries[i].second.replace_extension(".onnx"), ignored);
    }
  }

  fs::path path_, entry_;
};

// Returns what the choice depends on, as one key.
Result<std::string> KeyOf(const ModelRequest& request, const ModelQuantizer& quantizer, Calibration& calibration,
                          const Target& target) {
  ModelRequest options = request;
  options.model = options.db = options.calibrate = "";
  constexpr const char* kVersion = "precision 2";  // counts changes of the quantizer and of the search
  std::vector<std::string> parts = {kVersion, ModelLine(options), target.Text(),
                                    HashBytes128(quantizer.FloatModel()).Hex()};
  parts.push_back(TRY(calibration.HashOfSamples()).Hex());
  for (const std::string& version : VersionParts()) parts.push_back(version);
  return RunKey(parts);
}

Result<ModelQuantizer> ReadModel(const ModelRequest& request) {
  if (request.bytes.empty()) return ModelQuantizer::Read(request.model, QuantizedForm::kInt8);
  return ModelQuantizer::FromBytes(request.bytes, request.model, "", QuantizedForm::kInt8);
}

}  // namespace

Result<ChosenModel> ChoosePrecision(const ModelRequest& request, const PrecisionSetup& setup) {
  const Target here = TRY(Target::Parse("cpu"));
  if (setup.target.IsGpu() || setup.target.triple != here.triple)
    return Err("--precision auto measures on this machine's processor, which cannot run code for ",
               setup.target.IsGpu() ? ToText(setup.target.kind) : std::string_view(setup.target.triple));
  ModelRequest as_model = request;  // until the precisions are known
  as_model.precision = "model";
  ModelQuantizer quantizer = TRY(ReadModel(request));
  CalibrationSetup inputs{.target = setup.target, .builder = &setup.builder, .on_step = setup.on_step};
  inputs.network = TRY(as_model.ParseNetwork());
  Calibration calibration = TRY(Calibration::Open(quantizer, request.calibrate, std::move(inputs)));
  const ChoiceFolder folder = TRY(ChoiceFolder::Open(TRY(KeyOf(request, quantizer, calibration, setup.target))));
  if (const std::optional<ChosenModel> known = folder.Find(request)) return *known;
  quantizer.SetRanges(TRY(calibration.Ranges()));
  SearchedPrecisions found = TRY(SearchPrecisions(request.bound, quantizer, calibration, setup));
  for (const std::string& note : calibration.notes()) found.choice.notes.push_back(note);
  ChosenModel chosen{.model = as_model, .choice = std::move(found.choice)};
  chosen.model.bound = {};
  chosen.model.calibrate.clear();
  const bool own_model = found.model.empty();
  if (own_model) {
    if (chosen.choice.chosen().bf16 > 0) chosen.model.precision = "bf16";
  } else {
    SetBytes(chosen.model, std::move(found.model));
  }
  TRY(folder.Put(chosen, own_model));
  return chosen;
}

}  // namespace autotune

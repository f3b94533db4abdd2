#include "service/precision_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "compiler/change.h"
#include "compiler/choose_variants.h"
#include "compiler/compare_networks.h"
#include "service/precision_path.h"
#include "support/hint.h"
#include "support/host_lock.h"

namespace autotune {
namespace {

constexpr int kMostMixtures = 6;       // [chosen] that are measured
constexpr int64_t kSamplesAlone = 4;   // [chosen] for the errors of single products, which only order the mixtures
constexpr int64_t kLeastRows = 100;    // that an agreement needs
constexpr double kCompareSeconds = 1;  // [chosen] of each comparison of two networks, at all numbers of threads
constexpr int kProfiledRuns = 15;      // [chosen]
constexpr int64_t kLockPatienceMs = 30'000;

// The points of the request's own model.
constexpr const char* kF32Name = "f32";
constexpr const char* kBf16Name = "bf16";

constexpr size_t kCount = std::size(EnumNames<Precision>::kNames);

// Attributes the time of each kernel to a product: to the one of which it has the name, else to the one before it.
std::vector<double> SecondsOfProducts(const std::vector<ModelQuantizer::Product>& products,
                                      const std::vector<NodeTime>& kernels) {
  std::map<std::string, size_t> by_name;
  for (size_t p = 0; p < products.size(); ++p) by_name[products[p].name] = p;
  const auto first = std::ranges::find_if(kernels, [&](const NodeTime& kernel) { return by_name.count(kernel.name); });
  size_t at = first == kernels.end() ? 0 : by_name.at(first->name);
  std::vector<double> seconds(products.size(), 0);
  for (const NodeTime& kernel : kernels) {
    if (const auto product = by_name.find(kernel.name); product != by_name.end()) at = product->second;
    seconds[at] += kernel.seconds;
  }
  return seconds;
}

// Marks the points that no other one beats in both time and error.
void MarkBest(std::vector<PrecisionPoint>& points) {
  for (PrecisionPoint& point : points) {
    point.best = std::ranges::none_of(points, [&](const PrecisionPoint& other) {
      const bool as_good = other.speedup >= point.speedup && other.error <= point.error;
      return as_good && (other.speedup > point.speedup || other.error < point.error);
    });
  }
}

class Search {
 public:
  Search(const PrecisionBound& bound, const PrecisionSetup& setup, const ModelQuantizer& quantizer,
         Calibration& calibration)
      : setup_(setup), quantizer_(quantizer), calibration_(calibration) {
    choice_.bound = bound;
    choice_.samples = calibration.data().size();
    host_ = MakeLocalHost({.stop = setup.stop});
  }

  Result<SearchedPrecisions> Run() {
    TRY(ChooseBiases());
    TRY(MeasureUniform());
    TRY(FindCosts());
    TRY(TryMixtures());
    PrecisionPoint& chosen = choice_.points[TRY(Decide())];
    chosen.chosen = true;
    MarkBest(choice_.points);
    Describe(chosen.precisions);
    SearchedPrecisions found;
    if (chosen.name != kF32Name && chosen.name != kBf16Name) found.model = TRY(ModelOf(chosen.precisions));
    found.choice = std::move(choice_);
    return found;
  }

 private:
  size_t products() const { return quantizer_.products().size(); }
  void Tell(const std::string& step) const {
    if (setup_.on_step) setup_.on_step(step, 0, 0);
  }
  Status CheckStop() const {
    if (setup_.stop && *setup_.stop) return Error("the choice of precisions was stopped", ErrorKind::kStopped);
    return {};
  }

  Result<std::string> ModelOf(const Precisions& precisions) const { return quantizer_.MixedModel(precisions, errors_); }

  // Keeps the corrected biases of 8-bit products if they make the network more exact.
  Status ChooseBiases() {
    const Precisions bytes(products(), Precision::kInt8);
    if (calibration_.data().is_random()) return {};
    ModelQuantizer::MeanErrors errors = TRY(calibration_.MeanErrors());
    if (std::ranges::all_of(errors, [](const auto& error) { return error.empty(); })) return {};
    Tell("comparing corrected biases");
    const NetworkError plain = TRY(ErrorOfModel(TRY(ModelOf(bytes))));
    errors_ = std::move(errors);
    if (TRY(ErrorOfModel(TRY(ModelOf(bytes)))).error >= plain.error) errors_.clear();
    return {};
  }

  Result<NetworkError> ErrorOfModel(const std::string& model) {
    return calibration_.ErrorOf(TRY(calibration_.Compile(model)).package);
  }

  // Measures a form of the network, and adds its point.
  Status Measure(const std::string& name, const Precisions& precisions, Calibration::CompiledForm form) {
    TRY(CheckStop());
    PrecisionPoint point{.name = name, .precisions = precisions};
    point.f32 = std::ranges::count(precisions, Precision::kF32);
    point.bf16 = std::ranges::count(precisions, Precision::kBf16);
    point.int8 = std::ranges::count(precisions, Precision::kInt8);
    const NetworkError error = TRY(calibration_.ErrorOf(form.package));
    point.error = error.error, point.output = error.output, point.agreement = error.Agreement();
    const PrecisionBound& bound = choice_.bound;
    if (choice_.points.empty() && std::isnan(error.error))
      return WithHint(Err("output '", error.output, "' of the network of f32 has numbers that are infinite or NaN, so ",
                          "no error can be measured"),
                      "look at the weights of the model, and at the inputs of --calibrate");
    if (bound.min_agreement > 0 && error.judged < kLeastRows)
      return WithHint(Err("--min-agreement needs ", kLeastRows,
                          " rows of the first output that tell a largest number; ", "the samples have ", error.judged),
                      "give more inputs with --calibrate, or a bound by --max-error");
    point.holds = (bound.max_error == 0 || point.error <= bound.max_error) && point.agreement >= bound.min_agreement;
    if (!forms_.empty()) {
      point.compared = TRY(Compare(forms_[0], form));
      for (const NetworkComparison& compared : point.compared)
        point.speedup *= std::pow(1 / compared.ratio, 1.0 / static_cast<double>(point.compared.size()));
    }
    choice_.points.push_back(std::move(point));
    forms_.push_back(std::move(form));
    return {};
  }

  Result<std::vector<NetworkComparison>> Compare(const Calibration::CompiledForm& first,
                                                 const Calibration::CompiledForm& second) {
    const ComparisonOptions options{
        .seconds = kCompareSeconds, .extra_seconds = kCompareSeconds, .on_progress = nullptr, .stop = setup_.stop};
    return ComparePackages(first.network, first.package, second.package, ComparedThreads(setup_.target), *host_,
                           options);
  }

  // The networks of one precision. Those of f32 and bf16 are the request's own model.
  Status MeasureUniform() {
    Tell("measuring the networks of one precision");
    const std::string& own = quantizer_.FloatModel();
    TRY(Measure(kF32Name, Precisions(products(), Precision::kF32), TRY(calibration_.Compile(own))));
    Calibration::CompiledForm rounded = TRY(calibration_.Compile(own, /*bf16=*/true));
    if (StructureHash(rounded.network) == StructureHash(forms_[0].network)) {
      choice_.notes.push_back("this target multiplies no product of the network faster as bf16");
    } else {
      TRY(Measure(kBf16Name, Precisions(products(), Precision::kBf16), std::move(rounded)));
    }
    const Precisions bytes(products(), Precision::kInt8);
    return Measure("int8", bytes, TRY(calibration_.Compile(TRY(ModelOf(bytes)))));
  }

  // Profiles the networks of one precision, in the form in which products have their names.
  Status FindCosts() {
    costs_.resize(products());
    for (size_t p = 0; p < kCount; ++p) {
      TRY(CheckStop());
      const Precisions uniform(products(), static_cast<Precision>(p));
      const Calibration::CompiledForm form = TRY(calibration_.Compile(TRY(ModelOf(uniform))));
      const LoadedModel model = TRY(LoadModel(form.package, /*threads=*/1));
      TRY(calibration_.Run(*model.executor, 0));
      const std::optional<HostLock> alone =
          TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kLockPatienceMs, setup_.stop));
      const std::vector<double> seconds =
          SecondsOfProducts(quantizer_.products(), TRY(model.executor->Profile(kProfiledRuns)));
      for (size_t i = 0; i < products(); ++i) costs_[i].seconds[p] = seconds[i];
    }
    TRY(CheckStop());
    for (const auto& product : quantizer_.products())
      elements_.push_back(static_cast<double>(calibration_.ElementsOf(product.data)));
    const std::vector<ProductErrors> errors = TRY(calibration_.ErrorsAlone(kSamplesAlone));
    for (size_t i = 0; i < products(); ++i) costs_[i].error = errors[i];
    return {};
  }

  // Learns what a change of precision costs from the time of a mixture: what its products alone do not explain.
  void LearnChanges(const PrecisionPoint& mixture) {
    for (ProductCosts& product : costs_) product.change_seconds = 0;
    const double f32 = PredictedSeconds(costs_, Precisions(products(), Precision::kF32));
    const double more = f32 / mixture.speedup - PredictedSeconds(costs_, mixture.precisions);
    double elements = 0;
    for (size_t i = 1; i < products(); ++i)
      if (mixture.precisions[i] != mixture.precisions[i - 1]) elements += elements_[i];
    if (elements == 0) return;
    for (size_t i = 0; i < products(); ++i) costs_[i].change_seconds = std::max(0.0, more / elements) * elements_[i];
  }

  // Tries the fastest mixture within a limit of the predicted error. The limit is the one at which the error would be
  // at the bound, if the measured ones tell the scale of the predicted ones. Where that is no limit between the largest
  // one whose mixture holds the bound and the least one whose mixture does not, it is the middle of these; before any
  // mixture has failed, the one of the fastest mixture.
  Status TryMixtures() {
    constexpr double kCloseness = 1.02;  // [chosen] limits as close as this give nothing new
    double holds = 0, fails = kCloseness * PredictedError(costs_, PrecisionPath(costs_).front());
    double scale = ScaleOf(choice_.points.back());  // of the network of bytes
    const PrecisionPoint* fastest = Find(PrecisionPath(costs_).front());
    if (fastest && fastest->holds) return {};
    bool has_failed = false;
    int mixtures = 0;
    for (int round = 0; round < 2 * kMostMixtures && mixtures < kMostMixtures && fails > holds * kCloseness; ++round) {
      const bool bounded = choice_.bound.max_error > 0;
      double limit = bounded ? choice_.bound.max_error / scale : fails;
      if (limit >= fails && !has_failed) {
        limit = fails / kCloseness;
      } else if (!(limit > holds * kCloseness && limit < fails)) {
        limit = (holds + fails) / 2;
      }
      const Precisions precisions = FastestWithin(costs_, limit);
      const bool is_new = !Find(precisions);
      if (is_new) {
        ++mixtures;
        if (setup_.on_step) setup_.on_step("mixtures", mixtures, kMostMixtures);
        TRY(Measure("mixture " + std::to_string(mixtures), precisions,
                    TRY(calibration_.Compile(TRY(ModelOf(precisions))))));
      }
      const PrecisionPoint& point = *Find(precisions);
      (point.holds ? holds : fails) = limit;
      has_failed |= !point.holds;
      scale = ScaleOf(point);
      if (is_new) LearnChanges(point);
    }
    return {};
  }

  double ScaleOf(const PrecisionPoint& point) const {
    const double predicted = PredictedError(costs_, point.precisions);
    return predicted > 0 && point.error > 0 ? point.error / predicted : 1;
  }

  const PrecisionPoint* Find(const Precisions& precisions) const {
    const auto point = std::ranges::find(choice_.points, precisions, &PrecisionPoint::precisions);
    return point == choice_.points.end() ? nullptr : &*point;
  }

  static bool Gains(const std::vector<NetworkComparison>& compared) {
    std::vector<MedianInterval> ratios;
    for (const NetworkComparison& c : compared) ratios.push_back({c.ratio_low, c.ratio, c.ratio_high});
    return JudgeChange(ratios).kind == ChangeKind::kGain;
  }

  bool IsUniform(const PrecisionPoint& point) const {
    return std::max({point.f32, point.bf16, point.int8}) == static_cast<int64_t>(products());
  }

  // Takes the fastest network of one precision within the bound; f32, if none is faster for sure. Then the fastest
  // mixture within the bound, if it is faster for sure than that.
  Result<size_t> Decide() {
    size_t chosen = 0, mixture = 0;
    for (size_t i = 1; i < choice_.points.size(); ++i) {
      const PrecisionPoint& point = choice_.points[i];
      if (!point.holds || !Gains(point.compared)) continue;
      size_t& best = IsUniform(point) ? chosen : mixture;
      if (point.speedup > choice_.points[best].speedup) best = i;
    }
    if (mixture > 0 && choice_.points[mixture].speedup > choice_.points[chosen].speedup &&
        Gains(TRY(Compare(forms_[chosen], forms_[mixture]))))
      return mixture;
    return chosen;
  }

  void Describe(const Precisions& precisions) {
    double squares = 0;
    for (size_t i = 0; i < products(); ++i) {
      const auto p = static_cast<size_t>(precisions[i]);
      squares += costs_[i].error[p] * costs_[i].error[p];
    }
    for (size_t i = 0; i < products(); ++i) {
      const ModelQuantizer::Product& product = quantizer_.products()[i];
      const auto p = static_cast<size_t>(precisions[i]);
      const double error = costs_[i].error[p];
      choice_.products.push_back({.node = product.name,
                                  .op = product.op,
                                  .precision = precisions[i],
                                  .seconds = costs_[i].seconds[p],
                                  .f32_seconds = costs_[i].seconds[static_cast<size_t>(Precision::kF32)],
                                  .error = error,
                                  .share = squares > 0 ? error * error / squares : 0});
    }
  }

  const PrecisionSetup& setup_;
  const ModelQuantizer& quantizer_;
  Calibration& calibration_;
  std::unique_ptr<NetworkHost> host_;
  ModelQuantizer::MeanErrors errors_;  // empty: biases are not corrected
  std::vector<ProductCosts> costs_;    // by product
  std::vector<double> elements_;       // of the products' data
  PrecisionChoice choice_;
  std::vector<Calibration::CompiledForm> forms_;  // parallel to choice_.points
};

}  // namespace

Result<SearchedPrecisions> SearchPrecisions(const PrecisionBound& bound, const ModelQuantizer& quantizer,
                                            Calibration& calibration, const PrecisionSetup& setup) {
  return Search(bound, setup, quantizer, calibration).Run();
}

}  // namespace autotune

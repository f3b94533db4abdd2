#include "service/calibration_data.h"

#include <algorithm>
#include <filesystem>

#include "archives/npz.h"
#include "frontend/onnx/tensor_pb.h"
#include "runtime/fill.h"
#include "runtime/npy.h"
#include "support/file.h"
#include "support/hint.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRandomSamples = 4;  // [chosen]

Result<std::vector<std::string>> FilesIn(const std::string& folder, const std::string& ending) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ending) files.push_back(entry.path().string());
  if (error) return Err("cannot read ", folder, ": ", error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> FoldersIn(const std::string& folder) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory()) folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

Result<Tensor> TensorOf(const NamedTensor& tensor) {
  return Tensor::FromBytes(tensor.value.spec.shape, TRY(DataTypeFromText(tensor.value.spec.dtype.Text())),
                           tensor.value.bytes.view());
}

std::string TextOf(const TensorSpec& spec) { return spec.dtype + ShapeText(spec.shape); }

// Returns how many samples a tensor holds for an input, one behind the other in the first dimension; 0: it does not
// fit.
int64_t SamplesOf(const Tensor& tensor, const TensorSpec& spec) {
  if (DataTypeText(tensor.dtype()) != spec.dtype) return 0;
  if (tensor.shape() == spec.shape) return 1;
  const bool stacked = !spec.shape.empty() && tensor.shape().size() == spec.shape.size() && spec.shape[0] > 0 &&
                       tensor.shape()[0] % spec.shape[0] == 0 &&
                       std::equal(spec.shape.begin() + 1, spec.shape.end(), tensor.shape().begin() + 1);
  return stacked ? tensor.shape()[0] / spec.shape[0] : 0;
}

// Puts tensors into the order of the inputs: by their names, or by their places if no input has such a name.
Result<std::vector<Tensor>> InOrder(const std::vector<TensorSpec>& inputs, const NamedTensors& named,
                                    const std::string& where) {
  std::vector<Tensor> tensors(inputs.size());
  for (size_t i = 0; i < named.size(); ++i) {
    auto input = std::ranges::find_if(inputs, [&](const TensorSpec& s) { return s.name == named[i].first; });
    const size_t index = input == inputs.end() ? i : static_cast<size_t>(input - inputs.begin());
    if (index < tensors.size()) tensors[index] = named[i].second;
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!tensors[i].defined()) return Err(where, " has nothing for input '", inputs[i].name, "'");
  return tensors;
}

}  // namespace

Result<std::vector<Tensor>> CalibrationData::Read(const Source& source) const {
  NamedTensors named;
  const std::string& first = source.files[0];
  if (first.ends_with(".npz")) return InOrder(inputs_, TRY(ReadNpz(first)), first);
  for (size_t i = 0; i < source.files.size(); ++i) {
    const std::string& file = source.files[i];
    if (file.ends_with(".npy")) {
      named.emplace_back(inputs_[i].name, TRY(ReadNpy(file)));
      continue;
    }
    const NamedTensor tensor = TRY(ReadTensorPb(file));
    if (std::ranges::count(ignored_, tensor.name) == 0) named.emplace_back(tensor.name, TRY(TensorOf(tensor)));
  }
  return InOrder(inputs_, named, FolderOf(first));
}

Result<std::vector<CalibrationData::Source>> CalibrationData::SourcesIn(const std::string& folder) const {
  std::vector<Source> sources;
  const fs::path path(folder);
  if (fs::exists(path / "input_0.pb")) {
    Source& source = sources.emplace_back();
    for (int i = 0; fs::exists(path / ("input_" + std::to_string(i) + ".pb")); ++i)
      source.files.push_back((path / ("input_" + std::to_string(i) + ".pb")).string());
    return sources;
  }
  for (const std::string& file : TRY(FilesIn(folder, ".npz"))) sources.push_back({{file}});
  if (!sources.empty()) return sources;
  const std::vector<std::string> arrays = TRY(FilesIn(folder, ".npy"));
  if (inputs_.size() == 1) {
    for (const std::string& file : arrays) sources.push_back({{file}});
    return sources;
  }
  Source named;
  for (const TensorSpec& input : inputs_)
    if (const std::string file = (path / (input.name + ".npy")).string(); fs::exists(file)) named.files.push_back(file);
  if (!named.files.empty() && named.files.size() == inputs_.size()) sources.push_back(std::move(named));
  return sources;
}

Status CalibrationData::Check(Source& source) const {
  const std::vector<Tensor> tensors = TRY(Read(source));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string file = source.files.size() == tensors.size() ? source.files[i] : source.files[0];
    const int64_t samples = SamplesOf(tensors[i], inputs_[i]);
    if (samples == 0)
      return WithHint(Err(file, " has ", tensors[i].TypeText(), " for input '", inputs_[i].name,
                          "', but the model wants ", TextOf(inputs_[i])),
                      "--shape or --dim choose the shape of an input that the model leaves open");
    if (i > 0 && samples != source.samples)
      return Err(file, " has ", samples, " samples for input '", inputs_[i].name, "', but ", source.samples,
                 " for input '", inputs_[0].name, "'");
    source.samples = samples;
  }
  return {};
}

Result<CalibrationData> CalibrationData::Open(const std::string& where, const std::vector<TensorSpec>& inputs,
                                              const std::vector<std::string>& ignored, const std::string& option) {
  CalibrationData data;
  data.inputs_ = inputs;
  data.ignored_ = ignored;
  if (where == "random") {
    data.random_ = true;
    data.samples_.resize(kRandomSamples);
    return data;
  }
  if (!fs::is_directory(where))
    return WithHint(Err(option, " ", where, ": no such folder"),
                    "name a folder with test_data_set_*/input_0.pb, .npz or .npy files, or say random");
  data.sources_ = TRY(data.SourcesIn(where));
  for (const std::string& folder : data.sources_.empty() ? FoldersIn(where) : std::vector<std::string>())
    for (Source& source : TRY(data.SourcesIn(folder))) data.sources_.push_back(std::move(source));
  for (size_t s = 0; s < data.sources_.size(); ++s) {
    TRY(data.Check(data.sources_[s]));
    for (int64_t i = 0; i < data.sources_[s].samples; ++i) data.samples_.emplace_back(s, i);
  }
  if (data.samples_.empty())
    return WithHint(Err(option, " ", where, " holds no inputs"),
                    "it needs test_data_set_*/input_0.pb, .npz files with an array for each input, or .npy files");
  return data;
}

Result<std::vector<Tensor>> CalibrationData::Sample(int64_t i) {
  std::vector<Tensor> tensors;
  if (random_) {
    for (const TensorSpec& input : inputs_) {
      tensors.push_back(TRY(Tensor::Empty(input.shape, input.dtype)));
      FillRandom(tensors.back(), static_cast<uint64_t>(i));
    }
    return tensors;
  }
  const auto [source, place] = samples_[static_cast<size_t>(i)];
  if (read_ != static_cast<int64_t>(source)) {
    read_tensors_ = TRY(Read(sources_[source]));
    read_ = static_cast<int64_t>(source);
  }
  for (size_t input = 0; input < inputs_.size(); ++input) {
    const Tensor& all = read_tensors_[input];
    const size_t bytes = all.bytes().size() / static_cast<size_t>(sources_[source].samples);
    tensors.push_back(TRY(Tensor::FromBytes(inputs_[input].shape, all.dtype(),
                                            all.bytes().substr(static_cast<size_t>(place) * bytes, bytes))));
  }
  return tensors;
}

}  // namespace autotune

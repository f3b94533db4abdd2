#include "tests/compiler/compile_fixture.h"

#include "frontend/onnx/tensor_pb.h"
#include "ir/text.h"
#include "schedule/trace.h"
#include "tuner/defaults.h"
#include "tuner/search.h"

namespace autotune {
namespace {

const std::string kExample = std::string(AUTOTUNE_SOURCE_DIR) + "/examples/resnet20";

}  // namespace

Tensor ExampleTensor(const std::string& file) {
  NamedTensor read = ReadTensorPb(kExample + "/test_data_set_0/" + file).value();
  DLDataType type = DataTypeFromText(read.value.spec.dtype.Text()).value();
  return Tensor::FromBytes(read.value.spec.shape, type, read.value.bytes.view()).value();
}

CompileTest::Shared* CompileTest::shared_ = nullptr;

void CompileTest::SetUpTestSuite() {
  shared_ = new Shared;
  shared_->builder =
      MakeBuildWorkers(
          {.workers = 2, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
          .value();
  shared_->network = LoadNetwork(kExample + ".onnx", {}, shared_->target, *shared_->builder).value();
  shared_->tasks = MakeTuneTasks(shared_->network);
  shared_->plain = Compile(shared_->network, shared_->target, nullptr, *shared_->builder).value();
}

Result<CompileResult> CompileTest::CompileWith(RecordStore* store) {
  return Compile(network(), target(), store, *shared_->builder);
}

Comparison CompileTest::Check(const Package& package, int threads) {
  LoadedModel model = LoadModel(package, threads).value();
  EXPECT_TRUE(model.executor->SetInput(0, ExampleTensor("input_0.pb")).ok());
  EXPECT_TRUE(model.executor->Run().ok());
  return CompareTensors(model.executor->Output(0), ExampleTensor("output_0.pb")).value();
}

Record CompileTest::RecordOf(const TuneTask& task, int rank) {
  TaskSpace space = TaskSpace::Make(task, target()).value();
  std::vector<Proposal> proposals = DefaultProposals(space, rank + 1);
  const Proposal& proposal = proposals[std::min<size_t>(rank, proposals.size() - 1)];
  const TaskAlternative& alternative = task.alternatives[space.sketches[proposal.sketch].alternative];
  Record record;
  record.id = NewRecordId();
  record.task = task.hash.Hex();
  record.alternative = alternative.name;
  record.func = ToText(alternative.func);
  record.trace = ToText(proposal.trace);
  record.target = target().Text();
  record.times = {1e-6};
  record.cost = 1e-6;
  record.verified = true;
  record.versions = {kIrTextVersion, kStepLanguageVersion, 1, 1};
  return record;
}

Record CompileTest::DefaultRecordOf(size_t task) {
  Record record = RecordOf(tasks()[task], 0);
  record.alternative = shared_->plain.choices[task].alternative;
  record.trace = shared_->plain.choices[task].trace;
  for (const TaskAlternative& alternative : tasks()[task].alternatives) {
    if (alternative.name == record.alternative) record.func = ToText(alternative.func);
  }
  return record;
}

}  // namespace autotune

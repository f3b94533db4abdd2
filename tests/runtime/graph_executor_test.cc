#include "runtime/graph_executor.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>

#include "runtime/cpu_device.h"
#include "support/json.h"
#include "tests/runtime/c_artifact.h"
#include "tests/runtime/ramp.h"

namespace autotune {
namespace {

using testing::HasSubstr;

GraphNode Variable(std::string name, std::vector<int64_t> shape, int64_t storage) {
  GraphNode node;
  node.name = std::move(name);
  node.outputs = {{"f32", std::move(shape), storage}};
  return node;
}

GraphNode Call(std::string name, std::string kernel, std::vector<GraphRef> inputs, int64_t storage,
               std::vector<int64_t> shape = {2, 4}) {
  GraphNode node;
  node.name = std::move(name);
  node.func_name = std::move(kernel);
  node.inputs = std::move(inputs);
  node.outputs = {{"f32", std::move(shape), storage}};
  return node;
}

// Returns a graph of out = x + 2w + 2w, with two reshapes: shift, __nop, __nop, shift, copy. Storages 2 and 3
// alternate.
Graph SampleGraph() {
  Graph graph;
  graph.nodes = {Variable("x", {2, 4}, 0),
                 Variable("w", {8}, 1),
                 Call("first", "shift", {{0, 0}, {1, 0}}, 2),
                 Call("flat", "__nop", {{2, 0}}, 2, {8}),
                 Call("back", "__nop", {{3, 0}}, 2),
                 Call("second", "shift", {{4, 0}, {1, 0}}, 3),
                 Call("third", "copy", {{5, 0}}, 2)};
  graph.heads = {{6, 0}};
  return graph;
}

Module SampleModule() { return MakeLibraryModule(SampleLibrary(), std::make_shared<KernelContext>(1)); }

Result<std::unique_ptr<GraphExecutor>> Make(Graph graph, Params params) {
  return GraphExecutor::Create(std::move(graph), SampleModule(), std::move(params), {std::make_shared<CpuDevice>(2)});
}
Params OneParam() { return {{"w", Ramp({8}, 1)}}; }

TEST(GraphExecutor, RunsAndReuses) {
  auto made = Make(SampleGraph(), OneParam());
  ASSERT_TRUE(made.ok()) << made.error().Text();
  GraphExecutor& executor = **made;
  ASSERT_EQ(executor.num_inputs(), 1);
  EXPECT_EQ(executor.input_name(0), "x");
  EXPECT_EQ(executor.num_outputs(), 1);
  EXPECT_EQ(executor.output_name(0), "third");
  for (float start : {0.0f, 100.0f}) {
    ASSERT_TRUE(executor.SetInput(0, Ramp({2, 4}, start)).ok());
    Status status = executor.Run();
    ASSERT_TRUE(status.ok()) << status.error().Text();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(executor.Output(0).Data<float>()[i], start + i + 4 * (i + 1));
  }
  EXPECT_EQ(executor.memory_bytes(), 3 * 64);  // x, storage 2, storage 3
  EXPECT_EQ(executor.constant_bytes(), 64);    // both nodes share one prepared buffer, and w itself is freed
}

TEST(GraphExecutor, AParameterThatIsStillReadIsKept) {
  Graph graph = SampleGraph();
  graph.heads.push_back({1, 0});
  auto executor = Make(graph, OneParam()).value();
  EXPECT_EQ(executor->constant_bytes(), 64 + 32);
  EXPECT_EQ(executor->Output(1).Data<float>()[7], 8);
  EXPECT_FALSE(executor->BindOutput(1, Ramp({8})).ok());
}

TEST(GraphExecutor, ReshapeBetweenMemoriesCopies) {
  Graph graph = SampleGraph();
  graph.nodes[3].outputs[0].storage_id = 3;
  graph.nodes[4].outputs[0].storage_id = 4;
  auto executor = Make(graph, OneParam()).value();
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_EQ(executor->Output(0).Data<float>()[7], 32);
  EXPECT_EQ(executor->Profile(3).value().size(), 5u);
}

TEST(GraphExecutor, ProfilesBesideTheNetwork) {
  auto executor = Make(SampleGraph(), OneParam()).value();
  ProfileSamples samples;
  ASSERT_TRUE(executor->AddProfileSamples(2, samples).ok());
  ASSERT_TRUE(executor->AddProfileSamples(1, samples).ok());
  EXPECT_EQ(samples.network.size(), 3u) << "samples of several calls must add up";
  for (const std::vector<double>& kernel : samples.kernels) EXPECT_EQ(kernel.size(), 3u);
  samples.kernels[0] = {3, 1, 2};
  std::vector<NodeTime> times = executor->NodeTimes(samples).value();
  ASSERT_EQ(times.size(), samples.kernels.size());
  EXPECT_EQ(times[0].seconds, 2);
  EXPECT_EQ(times[0].least, 1);
  EXPECT_FALSE(executor->Profile(0).ok());
}

TEST(GraphExecutor, TracesARun) {
  auto executor = Make(SampleGraph(), OneParam()).value();
  ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4}, 0)).ok());
  const RunTrace trace = executor->TraceRun().value();
  EXPECT_EQ(executor->Output(0).Data<float>()[7], 39) << "a traced run computes the outputs";
  ASSERT_EQ(trace.kernels.size(), executor->Profile(1).value().size());
  double last = 0;
  for (const RunTrace::Span& kernel : trace.kernels) {
    EXPECT_GE(kernel.begin, last);
    EXPECT_GE(kernel.seconds, 0);
    last = kernel.begin + kernel.seconds;
  }
  EXPECT_LE(last, trace.seconds);
}

TEST(KernelContext, RecordsThePartsOfLoopsByThread) {
  KernelContext context(2);
  std::atomic<int> sum = 0;
  const auto loop = [&](int32_t tasks) {
    AtContext* abi = context.abi();
    return abi->parallel_for(
        abi, tasks, [](AtContext*, void* sum, int32_t i) { return *static_cast<std::atomic<int>*>(sum) += i, 0; },
        &sum);
  };
  loop(8);
  context.StartRecording();
  loop(1);  // runs on the caller, outside of the pool
  loop(8);
  const auto chunks = context.StopRecording();
  loop(8);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_GE(chunks[0].size() + chunks[1].size(), 2u);
  for (const auto& thread : chunks) {
    for (size_t i = 0; i < thread.size(); ++i) {
      EXPECT_LE(thread[i].begin, thread[i].end);
      if (i > 0) {
        EXPECT_LE(thread[i - 1].end, thread[i].begin);
      }
    }
  }
  for (const auto& thread : context.StopRecording()) EXPECT_TRUE(thread.empty()) << "not recorded";
}

TEST(GraphExecutor, ZeroCopy) {
  auto executor = Make(SampleGraph(), OneParam()).value();
  Tensor in = Ramp({2, 4}), out = Tensor::Zeros({2, 4}, "f32").value();
  ASSERT_TRUE(executor->BindInput(0, in).ok());
  ASSERT_TRUE(executor->BindOutput(0, out).ok());
  in.Data<float>()[0] = 50;
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_EQ(out.Data<float>()[0], 54);
  EXPECT_EQ(executor->Output(0).data(), out.data());

  Tensor odd = Tensor::View(in.Data<float>() + 1, {2, 3}, in.dtype(), nullptr).value();
  EXPECT_FALSE(executor->BindInput(0, odd).ok());
  EXPECT_FALSE(executor->BindInput(1, in).ok());
  EXPECT_FALSE(executor->SetInput(0, Ramp({8})).ok());
  EXPECT_FALSE(executor->SetInput(0, Tensor::Zeros({2, 4}, "i32").value()).ok());
}

// Node 5 of SampleGraph, "second", adds 2w; kernel "shift3" adds 3w.
TEST(GraphExecutor, KernelsAreReplaced) {
  auto executor = GraphExecutor::Create(SampleGraph(), SampleModule(), OneParam(), {std::make_shared<CpuDevice>(2)},
                                        {.replaceable = true})
                      .value();
  auto expect_factor = [&](int factor) {
    ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4})).ok());
    ASSERT_TRUE(executor->Run().ok());
    for (int i = 0; i < 8; ++i) EXPECT_EQ(executor->Output(0).Data<float>()[i], i + factor * (i + 1));
  };
  expect_factor(4);
  ASSERT_TRUE(executor->ReplaceKernel(5, "shift3").ok());
  expect_factor(5);
  int64_t bytes = executor->constant_bytes();
  ASSERT_TRUE(executor->ReplaceKernel(2, "shift3").ok());
  expect_factor(6);
  ASSERT_TRUE(executor->ReplaceKernel(5, "shift").ok());
  expect_factor(5);
  EXPECT_EQ(executor->constant_bytes(), bytes);  // prepared once for both nodes
}

TEST(GraphExecutor, KernelsThatDoNotFitAreNotReplaced) {
  auto executor = GraphExecutor::Create(SampleGraph(), SampleModule(), OneParam(), {std::make_shared<CpuDevice>(2)},
                                        {.replaceable = true})
                      .value();
  auto refusal = [&](int64_t node, const std::string& kernel) {
    Status status = executor->ReplaceKernel(node, kernel);
    return status.ok() ? "none" : status.error().Text();
  };
  EXPECT_THAT(refusal(5, "absent"), HasSubstr("the library has no kernel 'absent'"));
  EXPECT_THAT(refusal(5, "copy"), HasSubstr("kernel copy has 1 inputs"));
  EXPECT_THAT(refusal(3, "shift"), HasSubstr("node 3 'flat' runs no kernel"));
  ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4})).ok());
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_EQ(executor->Output(0).Data<float>()[7], 7 + 4 * 8);
  auto fixed = Make(SampleGraph(), OneParam()).value();
  EXPECT_FALSE(fixed->ReplaceKernel(5, "shift3").ok());
}

// The visits of the final choice, as its driver calls them.
TEST(GraphExecutor, VisitsAreTimedByTask) {
  auto executor = GraphExecutor::Create(SampleGraph(), SampleModule(), OneParam(), {std::make_shared<CpuDevice>(2)},
                                        {.replaceable = true})
                      .value();
  ASSERT_TRUE(executor->SetInput(0, Ramp({2, 4})).ok());
  const Module module = MakeGraphExecutorModule(std::move(executor));
  const PackedFunc visit = module->GetFunction("time_variants").value();
  const auto numbers = [](std::vector<int64_t> shape, std::vector<int64_t> values) {
    Tensor tensor = Tensor::Empty(std::move(shape), "i64").value();
    std::copy(values.begin(), values.end(), tensor.Data<int64_t>());
    return Value(tensor);
  };
  const std::string tasks =
      R"([{"nodes": [2, 5], "kernels": ["shift", "shift3"]}, {"nodes": [6], "kernels": ["copy"]}])";
  const Value drawn = numbers({3, 2}, {0, 0, 0, 0, 1, 0}), serial = numbers({3}, {0, 1, 1});
  const Tensor times = visit(tasks, drawn, serial, 60.0).value().As<Tensor>().value();
  ASSERT_EQ(times.shape(), (std::vector<int64_t>{3, 3}));
  for (int row = 0; row < 3; ++row) {
    const double* its = times.Data<double>() + 3 * row;
    EXPECT_TRUE(its[1] > 0 && its[2] > 0);
    EXPECT_GT(its[0], its[1] + its[2]) << "a visit lasts longer than one run of its tasks";
  }
  // The last visit's kernels stay.
  ASSERT_TRUE(module->GetFunction("run").value()().ok());
  const Tensor output = module->GetFunction("get_output").value()(0).value().As<Tensor>().value();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(output.Data<float>()[i], i + 6 * (i + 1));
  EXPECT_EQ(visit(tasks, drawn, serial, 0.0).value().As<Tensor>()->shape()[0], 1) << "at least one visit";

  const auto refusal = [&](const std::string& its, const Value& variants, const Value& modes) {
    const auto result = visit(its, variants, modes, 60.0);
    return result.ok() ? "none" : result.error().Text();
  };
  EXPECT_THAT(refusal("[", drawn, serial), testing::Not("none"));
  EXPECT_THAT(refusal("[]", numbers({3, 0}, {}), serial), HasSubstr("time_variants takes"));
  EXPECT_THAT(refusal(tasks, serial, serial), HasSubstr("time_variants takes"));
  EXPECT_THAT(refusal(tasks, drawn, numbers({2}, {0, 0})), HasSubstr("time_variants takes"));
  EXPECT_THAT(refusal(tasks, numbers({1, 2}, {2, 0}), numbers({1}, {0})), HasSubstr("has no kernel 2"));
  EXPECT_THAT(refusal(tasks, numbers({1, 2}, {-1, 0}), numbers({1}, {0})), HasSubstr("has no kernel -1"));
  EXPECT_THAT(refusal(R"([{"nodes": [7], "kernels": ["copy"]}])", numbers({1, 1}, {0}), numbers({1}, {0})),
              HasSubstr("no node 7"));
}

TEST(GraphExecutor, AFailingKernelNamesItsNode) {
  Graph graph = SampleGraph();
  graph.nodes[6].func_name = "fails";
  auto executor = Make(graph, OneParam()).value();
  Status status = executor->Run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().Text(), "kernel fails failed: division by zero in tile 3 (node 6 'third')");
}

TEST(GraphExecutor, WhatDoesNotFitIsRefused) {
  struct Case {
    const char* error;
    std::function<void(Graph&, Params&)> change;
  };
  for (const Case& c : {
           Case{"no variable for parameter 'v'", [](Graph&, Params&p) { p.emplace("v", Ramp({8})); }},
           Case{"parameter 'w' is f32[8], got f32[7]", [](Graph&, Params&p) { p["w"] = Ramp({7}); }},
           Case{"prepares its constant w, but node 1 'w' is no parameter", [](Graph&, Params&p) { p.clear(); }},
           Case{"the library has no kernel 'gone'", [](Graph&g, Params&) { g.nodes[6].func_name = "gone"; }},
           Case{"kernel copy has 1 inputs and 1 outputs, the node 2 and 1",
                [](Graph&g, Params&) {
                  g.nodes[6].inputs.push_back({5, 0});
                }},
           Case{"the graph has f32[8]", [](Graph&g, Params&) { g.nodes[6].outputs[0].shape = {8}; }},
           Case{"parameter x is f32[2, 4], the graph has f32[8]",
                [](Graph&g, Params&) {
                  g.nodes[5].inputs[0] = {3, 0};
                }},
           Case{"reshape of f32[2, 4] to f32[9]", [](Graph&g, Params&) { g.nodes[3].outputs[0].shape = {9}; }},
           Case{"uses storage 3 for two", [](Graph&g, Params&) { g.nodes[6].outputs[0].storage_id = 3; }},
           Case{"writes storage 0 of input", [](Graph&g, Params&) { g.nodes[6].outputs[0].storage_id = 0; }},
           Case{"reads node 2 'first', whose storage 2 was overwritten by node 6 'third'",
                [](Graph&g, Params&) {
                  g.nodes.push_back(Call("late", "copy", {{4, 0}}, 9));
                }},
           Case{"the graph's output reads node 2",
                [](Graph&g, Params&) {
                  g.heads.push_back({2, 0});
                }},
           Case{"node 9",
                [](Graph&g, Params&) {
                  g.heads.push_back({9, 0});
                }},
           Case{"too large",
                [](Graph&g, Params&) {
                  g.nodes[0].outputs[0].shape = {1ll << 40, 1ll << 40};
                }},
           Case{"too much memory", [](Graph&g, Params&) { g.nodes[0].outputs[0].shape = {1ll << 50}; }},
       }) {
    Graph graph = SampleGraph();
    Params params = OneParam();
    c.change(graph, params);
    auto made = Make(std::move(graph), std::move(params));
    ASSERT_FALSE(made.ok()) << c.error;
    EXPECT_THAT(made.error().Text(), HasSubstr(c.error));
    EXPECT_EQ(made.error().Text().find('\n'), std::string::npos);
  }
}

TEST(GraphExecutor, MoreMemoryThanThereIsIsRefusedBeforeItIsTouched) {
  auto create = [](int64_t extent) {
    Graph graph;
    graph.nodes.push_back({.name = "x", .outputs = {{"f32", {extent}, 0}}});
    graph.heads = {{0, 0}};
    auto executor = GraphExecutor::Create(std::move(graph), {}, {}, {std::make_shared<CpuDevice>(1)});
    return executor.ok() ? "" : executor.error().Text();
  };
  EXPECT_THAT(create(int64_t{1} << 36), HasSubstr("out of memory: intermediate values take 274877906944 bytes"));
  EXPECT_EQ(create(1 << 10), "");
}

TEST(GraphExecutor, FlattenDataComparesSizesOnly) {
  Graph graph = SampleGraph();
  graph.nodes[6].outputs[0].shape = {8};
  graph.nodes[6].flatten_data = true;
  auto executor = Make(graph, OneParam()).value();
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_EQ(executor->Output(0).shape(), std::vector<int64_t>{8});
}

TEST(GraphExecutor, AsAModule) {
  Module factory = MakeGraphExecutorFactory({"net", SampleGraph(), OneParam()}, 1);
  EXPECT_EQ(factory->TypeKey(), "GraphExecutorFactory");
  EXPECT_THAT(factory->FunctionNames(), testing::ElementsAre("default", "get_graph_json", "net"));
  ASSERT_TRUE(factory->Import(SampleModule()).ok());
  EXPECT_TRUE(factory->GetFunction("copy").ok());  // a function of the imported library
  auto call = [](const Module& module, std::string_view name, auto... args) {
    return module->GetFunction(name).value()(args...);
  };
  EXPECT_THAT(call(factory, "default", DLDevice{kDLMetal, 0}).error().Text(), HasSubstr("has no device metal(0)"));
  EXPECT_TRUE(call(factory, "net", DLDevice{kDLCPU, 0}).ok());
  EXPECT_FALSE(call(factory, "default").ok());
  Module executor = call(factory, "default", DLDevice{kDLCPU, 0})->As<Module>().value();
  EXPECT_EQ(executor->TypeKey(), "graph_executor");
  EXPECT_EQ(call(executor, "get_num_inputs")->As<int>().value(), 1);
  EXPECT_EQ(call(executor, "get_num_outputs")->As<int>().value(), 1);
  EXPECT_EQ(call(executor, "get_input_index", "x")->As<int>().value(), 0);
  EXPECT_EQ(call(executor, "get_input_name", 0)->As<std::string>().value(), "x");
  ASSERT_TRUE(call(executor, "set_input", "x", Ramp({2, 4})).ok());
  ASSERT_TRUE(call(executor, "set_input", 0, Ramp({2, 4})).ok());
  ASSERT_TRUE(call(executor, "run").ok());
  Tensor copy = Tensor::Zeros({2, 4}, "f32").value();
  ASSERT_TRUE(call(executor, "get_output", 0, copy).ok());
  EXPECT_EQ(copy.Data<float>()[7], 39);
  EXPECT_EQ(call(executor, "get_output", 0)->As<Tensor>()->Data<float>()[7], 39);
  EXPECT_EQ(Json::Parse(call(executor, "profile", 2)->As<std::string>().value())->As<Json::Array>()->size(), 3u);
  const Tensor samples = call(executor, "profile_samples", 2)->As<Tensor>().value();
  EXPECT_EQ(samples.TypeText(), "f64[4, 2]") << "the network and three kernels, two runs";
  for (int i = 0; i < 8; ++i) EXPECT_GT(samples.Data<double>()[i], 0);

  PackedFunc timer = call(executor, "time_evaluator", "run", 2, 3)->As<PackedFunc>().value();
  Json times = Json::Parse(timer()->As<std::string>().value()).value();
  EXPECT_EQ(times["results"].As<Json::Array>()->size(), 3u);
  EXPECT_GT(*times["min"].As<double>(), 0);
  EXPECT_LE(*times["min"].As<double>(), *times["mean"].As<double>());
  EXPECT_FALSE(call(executor, "time_evaluator", "run", 0, 3).ok());
  EXPECT_FALSE(call(executor, "time_evaluator", "nothing", 1, 1).ok());

  EXPECT_THAT(call(executor, "set_input", "y", Ramp({2, 4})).error().Text(), HasSubstr("its inputs are: x"));
  EXPECT_FALSE(call(executor, "set_input", 1, Ramp({2, 4})).ok());
  EXPECT_FALSE(call(executor, "set_input", 0, Tensor()).ok());
  EXPECT_FALSE(call(executor, "set_input", 0, 7).ok());
  EXPECT_FALSE(call(executor, "get_output", -1).ok());
  EXPECT_FALSE(call(executor, "get_output", 0, Tensor()).ok());
  EXPECT_FALSE(call(executor, "profile", 0).ok());
  for (const int64_t runs : {int64_t{0}, int64_t{-1}, INT64_MAX})
    EXPECT_FALSE(call(executor, "profile_samples", runs).ok()) << runs;
  EXPECT_FALSE(executor->GetFunction("nothing").ok());
}

TEST(GraphJson, GoesThereAndBack) {
  Graph graph = SampleGraph();
  graph.nodes[5].hash = "abc";
  auto parsed = Graph::Parse(graph.ToText());
  ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
  EXPECT_EQ(*parsed, graph);
  Json json = Json::Parse(graph.ToText()).value();
  EXPECT_EQ(json["attrs"]["dltype"].As<Json::Array>()->at(1).As<Json::Array>()->at(0), Json("float32"));
  EXPECT_EQ(json["node_row_ptr"], Json(Json::Array{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Graph JSON as another compiler writes it.
TEST(GraphJson, AnAddOfTwoMatrices) {
  auto graph = Graph::Parse(R"({
    "nodes": [{"op": "null", "name": "a", "inputs": []}, {"op": "null", "name": "b", "inputs": []},
      {"op": "tvm_op", "name": "add", "attrs": {"num_outputs": "1", "num_inputs": "2", "flatten_data": "0",
        "func_name": "fused_add", "hash": "d4e8"}, "inputs": [[0, 0, 0], [1, 0, 0]]}],
    "arg_nodes": [0, 1], "heads": [[2, 0, 0]],
    "attrs": {"dltype": ["list_str", ["float32", "float32", "float32"]], "device_index": ["list_int", [1, 1, 1]],
      "storage_id": ["list_int", [0, 1, 2]], "shape": ["list_shape", [[5, 5], [5, 5], [5, 5]]]},
    "node_row_ptr": [0, 1, 2, 3]})");
  ASSERT_TRUE(graph.ok()) << graph.error().Text();
  EXPECT_EQ(graph->nodes[2].func_name, "fused_add");
  EXPECT_EQ(graph->nodes[2].outputs[0].dtype, "f32");
}

TEST(GraphJson, HostileTextIsOneClearLine) {
  const std::string good = SampleGraph().ToText();
  auto with = [&](std::initializer_list<std::string> path, Json value) {
    Json root = Json::Parse(good).value();
    Json* at = &root;
    for (const std::string& key : path) {
      auto* array = at->As<Json::Array>();
      at = array ? &array->at(std::stoul(key)) : &(*at)[key];
    }
    *at = std::move(value);
    return root.Dump();
  };
  struct Case {
    std::string text, error;
  };
  for (const Case& c : {
           Case{"", "not valid JSON"},
           Case{"[]", "'nodes' is missing"},
           Case{with({"nodes"}, 3), "'nodes' is missing"},
           Case{with({"nodes", "0"}, 3), "nodes[0] is no object"},
           Case{with({"nodes", "0", "op"}, "magic"), "unknown op 'magic'"},
           Case{with({"nodes", "0", "name"}, "w"), "the name occurs twice"},
           Case{with({"nodes", "2", "attrs"}, nullptr), "'func_name' is missing"},
           Case{with({"nodes", "2", "attrs", "num_inputs"}, "3"), "num_inputs is 3, but it lists 2"},
           Case{with({"nodes", "2", "attrs", "num_outputs"}, "-1"), "expected a number of at most nine digits"},
           Case{with({"nodes", "2", "attrs", "num_outputs"}, -1), "expected a number of at most nine digits"},
           Case{with({"nodes", "2", "attrs", "num_outputs"}, INT64_MAX), "expected a number of at most nine digits"},
           Case{with({"nodes", "2", "attrs", "num_outputs"}, "999999999"), "node_row_ptr does not match"},
           Case{with({"nodes", "2", "attrs", "num_outputs"}, "0"), "node_row_ptr does not match"},
           Case{with({"nodes", "2", "inputs", "0"}, Json::Array{99, 0, 0}), "there is no node 99"},
           Case{with({"nodes", "2", "inputs", "0"}, Json::Array{-1, 0, 0}), "there is no node -1"},
           Case{with({"nodes", "2", "inputs", "0"}, Json::Array{5, 0, 0}), "which does not come before it"},
           Case{with({"nodes", "2", "inputs", "0"}, Json::Array{2, 0, 0}), "which does not come before it"},
           Case{with({"nodes", "2", "inputs", "0"}, Json::Array{0, 7, 0}), "node 0 has no output 7"},
           Case{with({"nodes", "2", "inputs", "0"}, Json::Array{0}), "a reference must be"},
           Case{with({"nodes", "2", "inputs", "0"}, "x"), "expected an array"},
           Case{with({"heads"}, Json::Array{}), "no outputs"},
           Case{with({"heads", "0"}, Json::Array{7, 0, 0}), "there is no node 7"},
           Case{with({"arg_nodes"}, Json::Array{0}), "arg_nodes does not list"},
           Case{with({"node_row_ptr"}, Json::Array{0, 1}), "node_row_ptr does not match"},
           Case{with({"attrs", "dltype"}, "float32"), "attrs.dltype: expected [\"list_str\", [...]]"},
           Case{with({"attrs", "dltype", "1", "0"}, "float33"), "unknown element type 'float33'"},
           Case{with({"attrs", "shape", "1"}, Json::Array{}), "has 0 elements, but the nodes have 7"},
           Case{with({"attrs", "shape", "1", "0", "0"}, -2), "negative dimension"},
           Case{with({"attrs", "shape", "1", "0", "0"}, 1.5), "expected an integer"},
           Case{with({"attrs", "storage_id", "1", "3"}, -5), "storage id -5 is negative"},
           Case{with({"attrs", "device_index", "1", "3"}, 2), "storage 2 lies on devices of type 1 and 2"},
       }) {
    auto graph = Graph::Parse(c.text);
    ASSERT_FALSE(graph.ok()) << c.error;
    EXPECT_THAT(graph.error().Text(), HasSubstr(c.error));
    EXPECT_EQ(graph.error().Text().find('\n'), std::string::npos);
  }
  EXPECT_TRUE(Graph::Parse(good).ok());
  for (size_t size = 0; size < good.size(); size += 97) EXPECT_FALSE(Graph::Parse(good.substr(0, size)).ok());
}

}  // namespace
}  // namespace autotune

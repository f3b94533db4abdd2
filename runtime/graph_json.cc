#include "runtime/graph_json.h"

#include <map>
#include <set>

#include "runtime/tensor.h"
#include "support/json.h"

namespace autotune {
namespace {

struct TypeAlias {
  std::string_view text, graph_text;
};
constexpr TypeAlias kTypeAliases[] = {{"f16", "float16"}, {"bf16", "bfloat16"}, {"f32", "float32"}, {"f64", "float64"},
                                      {"i8", "int8"},     {"i16", "int16"},     {"i32", "int32"},   {"i64", "int64"},
                                      {"u8", "uint8"},    {"u16", "uint16"},    {"u32", "uint32"},  {"u64", "uint64"},
                                      {"bool", "bool"}};

std::string ToGraphType(const std::string& text) {
  for (const TypeAlias& row : kTypeAliases) {
    if (row.text == text) return std::string(row.graph_text);
  }
  return text;
}

std::string FromGraphType(const std::string& text) {
  for (const TypeAlias& row : kTypeAliases) {
    if (row.graph_text == text) return std::string(row.text);
  }
  return text;
}

using IntLists = std::vector<std::vector<int64_t>>;

template <class T>
Result<T> Member(const Json& object, std::string_view name) {
  const Json& member = object[name];
  std::string path(name);
  if (member.IsNull()) return Err("'", path, "' is missing");
  T value{};
  TRY(FromJson(member, value, path));
  return value;
}

// attrs.NAME: ["list_str", [...]]
template <class T>
Result<T> Attribute(const Json& attrs, std::string_view name, std::string_view kind, int64_t count) {
  const Json::Array* pair = attrs[name].As<Json::Array>();
  const std::string* tag = pair && pair->size() == 2 ? (*pair)[0].As<std::string>() : nullptr;
  if (!tag || *tag != kind) return Err("attrs.", name, ": expected [\"", kind, "\", [...]]");
  T list{};
  TRY(FromJson((*pair)[1], list, "attrs." + std::string(name)));
  if (static_cast<int64_t>(list.size()) != count) {
    return Err("attrs.", name, " has ", list.size(), " elements, but the nodes have ", count, " outputs");
  }
  return list;
}

// Parses a reference [node, index, version]; the version may be absent.
Result<GraphRef> ToRef(const std::vector<int64_t>& triple) {
  if (triple.size() != 2 && triple.size() != 3) return Err("a reference must be [node, index, version]");
  return GraphRef{triple[0], triple[1]};
}

Result<int64_t> CountAttribute(const Json& attrs, std::string_view name) {
  constexpr int64_t kMaxCount = 999'999'999;  // small enough that sums of counts do not overflow
  const Json& value = attrs[name];
  if (const int64_t* number = value.As<int64_t>(); number && *number >= 0 && *number <= kMaxCount) return *number;
  const std::string* text = value.As<std::string>();
  if (!text || text->empty() || text->size() > 9 || text->find_first_not_of("0123456789") != std::string::npos) {
    return Err("attrs.", name, ": expected a number of at most nine digits");
  }
  return std::stoll(*text);
}

bool Flag(const Json& attrs, std::string_view name) {
  const std::string* text = attrs[name].As<std::string>();
  const int64_t* number = attrs[name].As<int64_t>();
  return (text && *text == "1") || (number && *number == 1);
}

// Parses one element of "nodes". Sets `num_outputs` to the number of its outputs.
Result<GraphNode> ParseNode(const Json& json, int64_t& num_outputs) {
  GraphNode node;
  node.name = TRY(Member<std::string>(json, "name"));
  std::string op = TRY_NOTE(Member<std::string>(json, "op"), "node " + node.name);
  num_outputs = 1;
  if (op != "null" && op != "tvm_op") return Err("node ", node.name, ": unknown op '", op, "'");
  if (json.As<Json::Object>()->contains("inputs")) {
    for (const auto& triple : TRY_NOTE(Member<IntLists>(json, "inputs"), "node " + node.name)) {
      node.inputs.push_back(TRY_NOTE(ToRef(triple), "node " + node.name));
    }
  }
  if (op == "null") {
    if (!node.inputs.empty()) return Err("node ", node.name, ": an input or parameter has inputs itself");
    return node;
  }
  const Json& attrs = json["attrs"];
  node.func_name = TRY_NOTE(Member<std::string>(attrs, "func_name"), "node " + node.name);
  if (node.func_name.empty()) return Err("node ", node.name, ": func_name is empty");
  num_outputs = TRY_NOTE(CountAttribute(attrs, "num_outputs"), "node " + node.name);
  int64_t num_inputs = TRY_NOTE(CountAttribute(attrs, "num_inputs"), "node " + node.name);
  if (num_inputs != static_cast<int64_t>(node.inputs.size())) {
    return Err("node ", node.name, ": num_inputs is ", num_inputs, ", but it lists ", node.inputs.size());
  }
  node.flatten_data = Flag(attrs, "flatten_data");
  if (const std::string* hash = attrs["hash"].As<std::string>()) node.hash = *hash;
  return node;
}

}  // namespace

std::vector<int64_t> Graph::Variables() const {
  std::vector<int64_t> indices;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].IsVariable()) indices.push_back(static_cast<int64_t>(i));
  }
  return indices;
}

Status Graph::Check() const {
  std::set<std::string_view> names;
  std::map<int64_t, int64_t> device_of_storage;
  auto check_ref = [&](GraphRef ref, int64_t before) -> Status {
    if (ref.node < 0 || ref.node >= static_cast<int64_t>(nodes.size())) return Err("there is no node ", ref.node);
    if (ref.node >= before) return Err("it reads node ", ref.node, ", which does not come before it");
    if (ref.index < 0 || ref.index >= static_cast<int64_t>(nodes[ref.node].outputs.size())) {
      return Err("node ", ref.node, " has no output ", ref.index);
    }
    return {};
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    std::string where = "node " + std::to_string(i) + " '" + node.name + "'";
    if (node.IsVariable() && !names.insert(node.name).second) return Err(where, ": the name occurs twice");
    if (node.outputs.empty()) return Err(where, " has no outputs");
    if (node.IsVariable() && (node.outputs.size() != 1 || !node.inputs.empty())) {
      return Err(where, " is an input or parameter: it must have one output and no inputs");
    }
    for (GraphRef ref : node.inputs) TRY_NOTE(check_ref(ref, static_cast<int64_t>(i)), where);
    for (const GraphEntry& entry : node.outputs) {
      DLDataType type = TRY_NOTE(DataTypeFromText(entry.dtype), where);
      TRY_NOTE(ShapeBytes(entry.shape, type), where);
      if (entry.device < 1) return Err(where, ": device type ", entry.device, " does not exist");
      auto [place, first] = device_of_storage.emplace(entry.storage_id, entry.device);
      if (!first && place->second != entry.device) {
        return Err(where, ": storage ", entry.storage_id, " lies on devices of type ", place->second, " and ",
                   entry.device);
      }
      if (entry.storage_id < 0) return Err(where, ": storage id ", entry.storage_id, " is negative");
    }
  }
  if (heads.empty()) return Err("the graph has no outputs (heads)");
  for (GraphRef ref : heads) TRY_NOTE(check_ref(ref, static_cast<int64_t>(nodes.size())), "heads");
  return {};
}

Result<Graph> Graph::Parse(std::string_view text) {
  auto parse = [&]() -> Result<Graph> {
    const Json json = TRY(Json::Parse(text));  // const: look-ups do not create members
    const Json::Array* list = json["nodes"].As<Json::Array>();
    if (!list) return Err("'nodes' is missing or no list");
    Graph graph;
    std::vector<int64_t> row_ptr = {0};
    for (const Json& item : *list) {
      int64_t num_outputs = 0;
      if (!item.As<Json::Object>()) return Err("nodes[", graph.nodes.size(), "] is no object");
      graph.nodes.push_back(
          TRY_NOTE(ParseNode(item, num_outputs), "nodes[" + std::to_string(graph.nodes.size()) + "]"));
      row_ptr.push_back(row_ptr.back() + num_outputs);
    }
    if (TRY(Member<std::vector<int64_t>>(json, "node_row_ptr")) != row_ptr) {
      return Err("node_row_ptr does not match the nodes' numbers of outputs");
    }
    const Json& attrs = json["attrs"];
    int64_t entries = row_ptr.back();
    auto types = TRY(Attribute<std::vector<std::string>>(attrs, "dltype", "list_str", entries));
    auto shapes = TRY(Attribute<IntLists>(attrs, "shape", "list_shape", entries));
    auto storage = TRY(Attribute<std::vector<int64_t>>(attrs, "storage_id", "list_int", entries));
    std::vector<int64_t> devices(entries, kDLCPU);
    if (!attrs["device_index"].IsNull()) {
      devices = TRY(Attribute<std::vector<int64_t>>(attrs, "device_index", "list_int", entries));
    }
    int64_t next = 0;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (; next < row_ptr[i + 1]; ++next) {
        graph.nodes[i].outputs.push_back(
            {FromGraphType(types[next]), std::move(shapes[next]), storage[next], devices[next]});
      }
    }
    for (const auto& triple : TRY(Member<IntLists>(json, "heads"))) {
      graph.heads.push_back(TRY_NOTE(ToRef(triple), "heads"));
    }
    if (TRY(Member<std::vector<int64_t>>(json, "arg_nodes")) != graph.Variables()) {
      return Err("arg_nodes does not list the nodes with op \"null\", in order");
    }
    TRY(graph.Check());
    return graph;
  };
  return TRY_NOTE(parse(), "graph JSON");
}

std::string Graph::ToText() const {
  auto triple = [](GraphRef ref) { return Json(Json::Array{ref.node, ref.index, 0}); };
  Json::Array node_list, row_ptr = {0}, types, shapes, storage, devices, head_list;
  int64_t entries = 0;
  for (const GraphNode& node : nodes) {
    Json::Array inputs;
    for (GraphRef ref : node.inputs) inputs.push_back(triple(ref));
    Json::Object object{{"op", node.IsVariable() ? "null" : "tvm_op"}, {"name", node.name}, {"inputs", inputs}};
    if (!node.IsVariable()) {
      Json::Object attrs{{"func_name", node.func_name},
                         {"num_inputs", std::to_string(node.inputs.size())},
                         {"num_outputs", std::to_string(node.outputs.size())},
                         {"flatten_data", node.flatten_data ? "1" : "0"}};
      if (!node.hash.empty()) attrs["hash"] = node.hash;
      object["attrs"] = std::move(attrs);
    }
    node_list.push_back(std::move(object));
    for (const GraphEntry& entry : node.outputs) {
      types.push_back(ToGraphType(entry.dtype));
      shapes.push_back(ToJson(entry.shape));
      storage.push_back(entry.storage_id);
      devices.push_back(entry.device);
    }
    row_ptr.push_back(entries += static_cast<int64_t>(node.outputs.size()));
  }
  for (GraphRef ref : heads) head_list.push_back(triple(ref));
  auto list = [](const char* kind, Json::Array values) {
    Json::Array pair;
    pair.emplace_back(kind);
    pair.emplace_back(std::move(values));
    return pair;
  };
  Json attrs;
  attrs["dltype"] = list("list_str", std::move(types));
  attrs["shape"] = list("list_shape", std::move(shapes));
  attrs["storage_id"] = list("list_int", std::move(storage));
  attrs["device_index"] = list("list_int", std::move(devices));
  Json graph;
  graph["nodes"] = std::move(node_list);
  graph["arg_nodes"] = ToJson(Variables());
  graph["heads"] = std::move(head_list);
  graph["node_row_ptr"] = std::move(row_ptr);
  graph["attrs"] = std::move(attrs);
  return graph.Dump(1);
}

}  // namespace autotune

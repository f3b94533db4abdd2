"""For test_mlf.py: changes of the package sample.chain_package(). Each change is an error in one place."""

import re

DROP = object()
BIG = 2**63


def put(root, path, value):
    """Sets the value at a path such as `memory.main[0].device`; DROP removes it."""
    *way, last = [int(i) if i else key for key, i in re.findall(r"(\w+)|\[(\d+)\]", path)]
    for step in way:
        root = root[step]
    if value is DROP:
        del root[last]
    else:
        root[last] = value


# Changes of metadata.json. Each is reported at the place of the change.
METADATA = [
    ("version", DROP), ("version", 4), ("version", 6), ("version", "5"), ("version", 5.0), ("version", True),
    ("model_name", DROP), ("model_name", ""), ("model_name", 3), ("model_name", "a/b"), ("model_name", None),
    ("export_datetime", DROP), ("export_datetime", "2026-01-31T09:05:00Z"), ("export_datetime", "2026-01-31 09:05:00"),
    ("export_datetime", "2026-02-30 09:05:00Z"), ("export_datetime", "2026-1-31 9:05:00Z"),
    ("export_datetime", 1769850300),
    ("executors", DROP), ("executors", "graph"), ("executors", []), ("executors", ["aot"]),
    ("executors", ["graph", "aot"]),
    ("target", DROP), ("target", {}), ("target", ["llvm"]), ("target", "llvm"),
    ("memory", DROP), ("memory", []), ("memory.main", DROP), ("memory.main", []), ("memory.main", {}),
    ("memory.operator_functions", DROP), ("memory.operator_functions", []), ("memory.operator_functions.f", []),
    ("memory.operator_functions.f", {}), ("memory.operator_functions.f", DROP),
    ("memory.main[0]", 1),
] + [(f"memory.main[0].{key}", value)
     for key in ("device", "workspace_size_bytes", "constants_size_bytes", "io_size_bytes")
     for value in (DROP, "1", 1.0, True, None, -1, BIG)] + [
    (f"memory.operator_functions.split[0].{key}", value)
    for key in ("device", "workspace_size_bytes") for value in (DROP, "1", 1.0, False, None, -1, BIG)] + [
    ("memory.main[0].workspace_size_bytes", 191), ("memory.main[0].constants_size_bytes", 31),
    ("memory.main[0].constants_size_bytes", 33), ("memory.main[0].io_size_bytes", 63),
    ("memory.main[0].io_size_bytes", 65),
    ("memory.main[0].device", 0),
]

# Changes of graph.json. Each is reported at the place of the change. Paths begin below `graph`.
GRAPH = [
    ("nodes", DROP), ("nodes", {}), ("nodes", []), ("nodes[0]", []), ("nodes[0].op", DROP), ("nodes[0].op", "nop"),
    ("nodes[0].op", None), ("nodes[0].name", DROP), ("nodes[0].name", 1), ("nodes[0].name", ""),
    ("nodes[0].inputs", DROP),
    ("nodes[0].inputs", None), ("nodes[2].inputs", 1), ("nodes[2].inputs[1]", 1),
    ("nodes[0].attrs", {}), ("nodes[0].control_deps", []),
    ("nodes[2].name", DROP), ("nodes[2].inputs", DROP), ("nodes[2].attrs", DROP), ("nodes[2].attrs", []),
    ("nodes[2].inputs[0]", [0, 0]), ("nodes[2].inputs[0]", [0, 0, 0, 0]), ("nodes[2].inputs[0][1]", "0"),
    ("nodes[2].inputs[0][2]", -1), ("nodes[2].inputs[0][0]", False),
    ("nodes[2].inputs[0]", [2, 0, 0]), ("nodes[2].inputs[0]", [3, 0, 0]), ("nodes[2].inputs[0]", [99, 0, 0]),
    ("nodes[4].inputs[1]", [3, 2, 0]), ("nodes[2].inputs[0]", [0, 1, 0]),
    ("nodes[2].attrs.func_name", DROP), ("nodes[2].attrs.func_name", 7), ("nodes[2].attrs.flatten_data", DROP),
    ("nodes[2].attrs.flatten_data", 0), ("nodes[2].attrs.flatten_data", "no"), ("nodes[2].attrs.num_inputs", DROP),
    ("nodes[2].attrs.num_inputs", 2), ("nodes[2].attrs.num_inputs", "02"), ("nodes[2].attrs.num_inputs", "1"),
    ("nodes[2].attrs.num_inputs", "3"), ("nodes[2].attrs.num_outputs", DROP), ("nodes[2].attrs.num_outputs", 1),
    ("nodes[2].attrs.num_outputs", "0"), ("nodes[2].attrs.num_outputs", "-1"),
    ("nodes[2].attrs.num_outputs", "9" * 5000),
    ("nodes[2].attrs.hash", DROP), ("nodes[2].attrs.hash", ""), ("nodes[2].attrs.hash", 5),
    ("nodes[5].attrs.hash", DROP),
    ("nodes[2].attrs.layout", 1), ("nodes[2].attrs.func_name", "absent"), ("nodes[6].attrs.func_name", "F"),
    ("arg_nodes", DROP), ("arg_nodes", "0"), ("arg_nodes", [0]), ("arg_nodes[1]", 2), ("arg_nodes[1]", 0),
    ("arg_nodes[1]", 7), ("arg_nodes[1]", -1), ("nodes[1].name", "x"),
    ("heads", DROP), ("heads", []), ("heads[0]", 6), ("heads[0]", [6, 0]), ("heads[0]", [7, 0, 0]),
    ("heads[0]", [6, 1, 0]),
    ("node_row_ptr", DROP), ("node_row_ptr", [0, 1, 2, 3, 5, 6, 7]), ("node_row_ptr[0]", 1), ("node_row_ptr[4]", 4),
    ("node_row_ptr[7]", 9), ("node_row_ptr[1]", "1"),
    ("attrs", DROP), ("attrs", []), ("metadata", {}),
    ("attrs.dltype", DROP), ("attrs.dltype[0]", "list_string"), ("attrs.dltype[1][3]", "float"),
    ("attrs.dltype[1][3]", "float24"), ("attrs.dltype[1][3]", "int32x0"),
    ("attrs.dltype[1][3]", "int8x65536"), ("attrs.dltype[1][3]", 1),
    ("attrs.dltype[1]", ["float32"] * 7),
    ("attrs.shape", DROP), ("attrs.shape[0]", "list_int"), ("attrs.shape[1][0]", 8), ("attrs.shape[1][0][1]", -4),
    ("attrs.shape[1][0][1]", "4"), ("attrs.shape[1]", [[8]] * 9),
    ("attrs.storage_id", DROP), ("attrs.storage_id[0]", "list_str"), ("attrs.storage_id[1][3]", -1),
    ("attrs.storage_id[1][3]", 3.0), ("attrs.storage_id[1]", list(range(7))), ("attrs.storage_id", ["list_int"]),
    ("attrs.storage_id", [0, 1, 2, 3, 4, 2, 2, 5]),
    ("attrs.device_index", DROP), ("attrs.device_index[0]", "list_device"), ("attrs.device_index[1][2]", 0),
    ("attrs.device_index[1][2]", "1"), ("attrs.device_index[1]", [1]),
    ("attrs.spare", 5), ("attrs.spare", ["list_int"]), ("attrs.spare", ["size_t", 1, 2]),
]

# Changes of the storage plan: (storage id of each entry, places of the reported problems).
STORAGE = [
    ([0, 1, 0, 3, 4, 2, 2, 5], [2]),        # an input's storage is reused
    ([0, 1, 2, 3, 4, 2, 2, 1], [7]),        # a parameter's storage is reused
    ([0, 0, 2, 3, 4, 2, 2, 5], [1]),        # two arguments in one place
    ([0, 1, 2, 2, 4, 6, 6, 5], [3]),        # the halves overwrite the value that is split
    ([0, 1, 2, 3, 3, 2, 2, 5], [4]),        # two outputs of one node in one place
    ([0, 1, 2, 3, 4, 3, 3, 5], [5]),        # an output over the same node's input
    ([0, 1, 2, 3, 4, 2, 6, 5], [6]),        # a reshape that would have to copy
    ([0, 1, 2, 3, 4, 2, 2, 2], [7]),        # the head overwrites a value that a reshape keeps alive
    ([0, 1, 5, 3, 4, 2, 2, 5], []),         # the head may reuse the storage of a dead value
    ([0, 1, 2, 3, 4, 6, 6, 3], []),         # likewise: entry 3 is last read two nodes earlier
]

C_SOURCE = rb"""
#include <stdint.h>
#define DECOY(x) { x
/* int split(void) { */ // int g(void) {
typedef float v8 __attribute__((vector_size(32)));
static const char text[] = "int g(void) {\"";
static const int32_t table[2][1] = {{1}, {2}};
struct pair { int a, b; };
#ifdef __cplusplus
extern "C" {
#endif
int32_t f(void* restrict a, void (*call)(int)) { if (a) { call('}'); } return 0; }
__attribute__((visibility("default"), noinline)) int split(
    const float* a) __attribute__((hot)) \
{ for (;;) { return 0; } }
extern inline int g(void) { return f(0, 0); }
#ifdef __cplusplus
}
#endif
"""

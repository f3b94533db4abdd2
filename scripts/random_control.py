"""Rewrites random networks into the forms that exporters emit: parts of a finished list of nodes become functions,
branches and loops, and shapes are computed instead of stated. The results of the network stay the same. For
scripts/random_network.py.
"""

import numpy as np
from element_types import NUMPY_TYPES
from onnx import AttributeProto, TensorProto, helper, numpy_helper

DOMAIN = "fuzz"


class Wrapper:
    """Rewrites the nodes of a network (random_graph.Network) in place."""

    def __init__(self, net, outputs, types):
        self.net, self.rng, self.opset = net, net.rng, net.opset
        self.outputs = set(outputs)  # names of the network's outputs
        self.types = types  # function from a tensor's name to ONNX's number of its type
        self.functions, self.inner_constants, self.count = [], [], 0

    def name(self, prefix):
        self.count += 1
        return f"{prefix}_{self.count}"

    def info(self, name, as_name=None):
        return helper.make_tensor_value_info(as_name or name, self.types(name), self.net.shape(name))

    def constant(self, value, dtype=np.int64):
        name = self.known("w", np.array(value, dtype))
        return name, numpy_helper.from_array(self.net.values[name], name)

    def known(self, prefix, value):
        """Returns a new name for a tensor of this value."""
        name = self.name(prefix)
        self.net.values[name] = value
        return name

    def add(self, *values):
        """Adds these values as initializers of the network and returns their names."""
        names = []
        for value in values:
            name, tensor = self.constant(value)
            self.net.initializers.append(tensor)
            names.append(name)
        return names

    def stretch(self):
        """Returns the range of some consecutive nodes, the tensors that they read from outside, and those of their
        results that are read outside. Returns None if the value of one of these tensors is not known."""
        nodes = self.net.nodes
        begin = self.rng.randrange(len(nodes))
        end = min(len(nodes), begin + self.rng.randint(1, 4))
        part = nodes[begin:end]
        made = {v for n in part for v in n.output}
        reads = sorted({v for n in part for v in captured(n) if v not in made})
        rest = {v for n in nodes[:begin] + nodes[end:] for v in captured(n)} | self.outputs
        results = sorted(made & rest)
        known = results and all(v in self.net.values and self.net.values[v].size for v in reads + results)
        return (begin, end, reads, results) if known else None

    def replace(self, begin, end, nodes):
        self.net.nodes[begin:end] = nodes

    def function(self):
        """Turns some nodes into a function of the model, which is called once."""
        found = self.stretch()
        if not found:
            return
        begin, end, reads, results = found
        part = [copy(n) for n in self.net.nodes[begin:end]]
        call, attributes = {}, []
        for node in part:  # turn some numbers into attributes of the call
            for a in node.attribute:
                if a.type == AttributeProto.INT and not call and self.rng.random() < 0.5:
                    attributes, call = ["given"], {"given": a.i}
                    a.ref_attr_name = "given"
                    a.ClearField("i")
        name = self.name("F")
        domains = {d for n in part for d in domains_of(n)} | {""}
        imports = [helper.make_opsetid(d, self.opset if d == "" else 1) for d in sorted(domains)]
        self.functions.append(helper.make_function(DOMAIN, name, reads, results, part, imports, attributes))
        self.replace(begin, end, [helper.make_node(name, reads, results, domain=DOMAIN, name="n_" + name, **call)])

    def branch(self):
        """Turns some nodes into an If whose condition is known, or whose branches compute the same values."""
        found = self.stretch()
        if not found:
            return
        begin, end, reads, results = found
        part = self.net.nodes[begin:end]
        then, else_ = self.renamed(part, "then"), self.renamed(part, "else")
        graph = lambda way, nodes: helper.make_graph(
            nodes, self.name("g"), [], [self.info(v, f"{v}_{way}") for v in results])
        condition = self.known("c", np.array(True))
        if self.rng.random() < 0.5 and not self.net.shape(self.net.inputs[0][0]) == []:
            data = self.net.inputs[0][0]
            zero, size = self.add(0, self.net.shape(data)[0])
            shape = self.known("s", np.array(self.net.shape(data)))
            extent = self.known("d", self.net.values[size])
            nodes = [helper.make_node("Shape", [data], [shape]), helper.make_node("Gather", [shape, zero], [extent]),
                     helper.make_node("Equal", [extent, size], [condition])]
        else:
            self.net.values[condition] = np.array(self.rng.random() < 0.5)
            self.net.inputs.append((condition, self.net.values[condition]))
            nodes = []
        nodes.append(helper.make_node("If", [condition], results, name="n_" + condition,
                                      then_branch=graph("then", then), else_branch=graph("else", else_)))
        self.replace(begin, end, nodes)

    def renamed(self, part, way):
        """Returns copies of the nodes with new names for their results."""
        made = {v for n in part for v in n.output}
        nodes = [copy(n) for n in part]
        for node in nodes:
            node.name += "_" + way
            rename(node, {v: f"{v}_{way}" for v in made})
        return nodes

    def loop(self):
        """Turns some nodes into a Loop of a few equal iterations. A result is carried through the loop, or selected from
        the results of all iterations."""
        found = self.stretch()
        if not found:
            return
        begin, end, reads, results = found
        part = self.renamed(self.net.nodes[begin:end], "in")
        carried = [v for v in results if self.rng.random() < 0.5]
        collected = [v for v in results if v not in carried]
        trips = self.rng.randint(1, 3)
        count, pick = self.add(trips, self.rng.randrange(trips))
        start = {}
        for v in carried:
            start[v] = self.known("w", self.net.values[v])
            self.net.initializers.append(numpy_helper.from_array(
                np.zeros(self.net.shape(v), NUMPY_TYPES[self.types(v)]), start[v]))
        i, go, on = self.name("i"), self.name("go"), self.name("on")
        scalar = lambda name, kind: helper.make_tensor_value_info(name, kind, [])
        body = helper.make_graph(
            [helper.make_node("Identity", [go], [on])] + part, self.name("g"),
            [scalar(i, TensorProto.INT64), scalar(go, TensorProto.BOOL)] + [self.info(v, f"{v}_carried") for v in carried],
            [scalar(on, TensorProto.BOOL)] + [self.info(v, f"{v}_in") for v in carried + collected])
        stacks = {v: self.known("l", np.stack([self.net.values[v]] * trips)) for v in collected}
        loop = helper.make_node("Loop", [count, ""] + [start[v] for v in carried],
                                carried + [stacks[v] for v in collected], name="n_" + i, body=body)
        picks = [helper.make_node("Gather", [stacks[v], pick], [v], axis=0) for v in collected]
        self.replace(begin, end, [loop] + picks)

    def shape(self):
        """Computes a list of integers by arithmetic on extents of the first input."""
        lists = [t for t in self.net.initializers if t.data_type == TensorProto.INT64 and len(t.dims) == 1 and
                 1 <= t.dims[0] <= 6 and t.name in self.net.values]
        data, extents = self.net.inputs[0][0], self.net.shape(self.net.inputs[0][0])
        if not lists or not extents or self.opset < 13:
            return
        target = self.rng.choice(lists)
        numbers = [int(v) for v in self.net.values[target.name]]
        if max(map(abs, numbers)) > 1 << 20:
            return
        self.net.initializers.remove(target)
        nodes, parts = [], []
        shape, axes = self.known("s", np.array(extents)), self.add([0])[0]
        nodes.append(helper.make_node("Shape", [data], [shape]))
        for number in numbers:
            index = self.rng.randrange(len(extents))
            value = self.extent(nodes, shape, index, extents[index], number)
            parts.append(self.known("u", np.array([number])))
            nodes.append(helper.make_node("Unsqueeze", [value, axes], [parts[-1]]))
        nodes.append(helper.make_node("Concat", parts, [target.name], axis=0))
        self.net.nodes[0:0] = nodes

    def extent(self, nodes, shape, index, extent, number):
        """Computes the scalar `number` from an extent, in one of several ways."""
        at, offset, factor = self.add(index, number - extent, number)
        value = self.known("d", np.array(extent))
        nodes.append(helper.make_node("Gather", [shape, at], [value], axis=0))
        way, y = self.rng.randrange(4), self.known("v", np.array(number))
        if way == 0:
            nodes.append(helper.make_node("Add", [value, offset], [y]))
        elif way == 1:  # number * (extent / extent)
            one = self.known("v", np.array(1))
            nodes.append(helper.make_node("Div", [value, value], [one]))
            nodes.append(helper.make_node("Mul", [one, factor], [y]))
        elif way == 2:  # computed in floats
            f, g, h, k = self.name("v"), self.name("v"), self.name("v"), self.name("v")
            nodes.append(helper.make_node("Cast", [value], [f], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Cast", [offset], [g], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Add", [f, g], [h]))
            nodes.append(helper.make_node("Floor", [h], [k]))
            nodes.append(helper.make_node("Cast", [k], [y], to=TensorProto.INT64))
        else:  # where(extent == extent, number, 0)
            same, (zero,) = self.name("v"), self.add(0)
            nodes.append(helper.make_node("Equal", [value, value], [same]))
            nodes.append(helper.make_node("Where", [same, factor, zero], [y]))
        return y

    def run(self):
        ways = [self.function, self.function, self.branch, self.loop, self.shape, self.shape]
        for _ in range(self.rng.randint(1, 6)):
            self.rng.choice(ways)()


def copy(node):
    other = type(node)()
    other.CopyFrom(node)
    return other


def domains_of(node):
    subgraphs = [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]
    return {node.domain} | {d for g in subgraphs for n in g.node for d in domains_of(n)}


def captured(node):
    """Returns the names that a node and its subgraphs read."""
    names = [v for v in node.input if v]
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH:
            own = {v for n in a.g.node for v in n.output} | {i.name for i in a.g.input}
            names += [v for n in a.g.node for v in captured(n) if v not in own]
    return names


def rename(node, names):
    node.input[:] = [names.get(v, v) for v in node.input]
    node.output[:] = [names.get(v, v) for v in node.output]
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH:
            for n in a.g.node:
                rename(n, names)
            for o in a.g.output:
                o.name = names.get(o.name, o.name)

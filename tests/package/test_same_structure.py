#!/usr/bin/env python3
"""Tests same_structure.py: names do not matter, everything else does."""

import sys
import unittest

sys.dont_write_bytecode = True  # before the imports below

import sample
from cases import DROP, GRAPH, put
from same_structure import difference, same_structure
from sample import chain_package


class SameStructure(unittest.TestCase):
    def test_names_do_not_matter(self):
        graph = chain_package().graph
        for i, node in enumerate(graph["nodes"]):
            node["name"] = f"n{i}"
            if i > 1 and i != 5:
                node["attrs"].update(func_name="tvmgen_" + node["attrs"]["func_name"], hash=str(i))
        self.assertIsNone(difference(graph, chain_package().graph))

    def test_everything_else_does(self):
        for path, value in GRAPH:
            if path == "nodes[1].name" or path == "nodes[2].attrs.hash" and value is not DROP or path == "nodes[0]":
                continue
            if path in ("nodes", "attrs", "nodes[2].attrs") or path.endswith("func_name") or path.endswith(".name"):
                continue
            with self.subTest(path=path):
                changed = chain_package().graph
                put(changed, path, value)
                self.assertFalse(same_structure(changed, chain_package().graph))

    def test_which_names_are_equal_matters(self):
        for path, name in (("nodes[4].attrs.func_name", "f"), ("nodes[6].attrs.func_name", "other"),
                           ("nodes[1].name", "x"),
                           ("nodes[5].attrs.func_name", "nop")):
            with self.subTest(path=path):
                changed = chain_package().graph
                put(changed, path, name)
                self.assertIn(f"graph.{path}", difference(changed, chain_package().graph))

    def test_types_matter(self):
        changed = sample.golden()
        changed["arg_nodes"] = [False, True]
        self.assertEqual(difference(changed, sample.golden()), "graph.arg_nodes[0]: false, not 0")


if __name__ == "__main__":
    unittest.main()

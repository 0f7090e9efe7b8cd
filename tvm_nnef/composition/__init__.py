"""Composition: a checked definition, attribute values and input shapes in, a Graph out."""

from tvm_nnef.composition.graphs import NotGiven, compose_graph

__all__ = ["NotGiven", "compose_graph"]

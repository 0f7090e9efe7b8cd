"""Composition of a Graph from a checked definition, attribute values and input shapes."""

from tvm_nnef.composition.graphs import NotGiven, compose_graph

__all__ = ["NotGiven", "compose_graph"]

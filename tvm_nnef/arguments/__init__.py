"""The arguments of a call: ports of a graph, arrays given for them, random ones, and results."""

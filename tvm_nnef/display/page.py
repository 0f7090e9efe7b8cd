"""A Graph as one HTML file that needs nothing else: no server, no network, no other file.

The graph is laid out in the browser by dagre (``web``), whose licence is part of the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from tvm_nnef.diagnostics import error
from tvm_nnef.display.difference import Difference
from tvm_nnef.display.page_data import page_data
from tvm_nnef.display.statistics import WeightStatistics
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.model.model import Model
from tvm_nnef.storage.regular import open_regular

DAGRE = "dagre-3.1.3"
"""The layout library, https://github.com/dagrejs/dagre, under the MIT licence."""

_PROFILE_HINT = "write one with 'tvm-nnef run MODEL --profile-json FILE'"


def page(
    graph: Graph,
    model: Model | None = None,
    seconds: Mapping[str, float] = {},
    difference: Difference | None = None,
) -> str:
    """The page of a graph.

    ``model`` has the values of its variables and the defaults of attributes, ``seconds`` the times
    of operations by their full names, ``difference`` what changed since another graph.
    """
    program = None if model is None else model.program
    statistics = None if model is None else WeightStatistics(model.variables)
    origins = {} if model is None else model.metadata.source_operations
    found = page_data(graph, program, statistics, seconds, difference, origins)
    data = json.dumps(found, separators=(",", ":"))
    parts = {
        "TITLE": escape(graph.name),
        "STYLE": _web("page.css"),
        "LICENCE": _web(f"{DAGRE}.LICENSE.txt").strip(),
        "DAGRE": _web(f"{DAGRE}.min.js"),
        "SCRIPT": _web("page.js"),
        # No text of a model can end the element.
        "DATA": data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    }
    first, *pieces = _web("page.html").split("{{")
    filled = (piece.split("}}", 1) for piece in pieces)
    return first + "".join(parts[name] + rest for name, rest in filled)


def read_profile(file: str) -> dict[str, float]:
    """The seconds of operations by name, from a file of ``tvm-nnef run --profile-json``.

    Raises NnefError if it cannot be read, or is something else.
    """
    try:
        with open_regular(file) as stream:
            rows = json.load(stream)["operations"]
        seconds = {str(row["name"]): float(row["seconds"]) for row in rows}
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error(f"cannot be read: {reason}", hint=_PROFILE_HINT, file=file) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise error("this is not a profile", hint=_PROFILE_HINT, file=file) from None
    if not all(0 <= each < math.inf for each in seconds.values()):
        raise error("the profile has an impossible time", hint=_PROFILE_HINT, file=file)
    return seconds


def _web(name: str) -> str:
    found: Any = files("tvm_nnef.display") / "web" / name
    return str(found.read_text(encoding="utf-8"))

"""The model of a command that runs or shows it, composed; sizes are chosen that nothing fixes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef.api.building import composed
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.cli.literals import count, is_literal
from tvm_nnef.converters.common.chosen_shapes import ChosenShapes
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.formats.reading import load_to_compose
from tvm_nnef.formats.registry import OpenedSource, open_source
from tvm_nnef.graph.nodes import Graph, If, Loop, Node, Operation
from tvm_nnef.graph.size_estimates import SAMPLES, TRIED
from tvm_nnef.model.model import Model
from tvm_nnef.support.progress import Report as Progress
from tvm_nnef.support.progress import progress_reported, silent

_IMPOSSIBLE = "extra.impossible"


@dataclass(frozen=True, slots=True)
class Composed:
    """A model, its graph, the options by which it was composed, and where it is from."""

    model: Model
    graph: Graph
    options: dict[str, Any]
    source: OpenedSource


def read_composed(options: argparse.Namespace) -> Composed:
    """The model of a command, composed.

    Inputs that are given as files fix the shapes of a converted model. Dimensions that nothing
    fixes get a size that fits the model, which a line on standard error reports; those with a
    bound stay dynamic. Raises NnefError for what is wrong with the model or the options.
    """
    given = {**load_options(options), **compose_options(options)}
    opened = open_source(options.model, given.pop("format"))
    if not opened.format.is_foreign:
        return _composed(opened, given, silent)
    with progress_reported(wanted=not options.quiet) as progress:
        composed, shapes = _first_fitting(opened, given, _tries(options), progress)
    if shapes.chosen and not options.quiet:
        print(_report(shapes), file=sys.stderr)
    return composed


def _first_fitting(
    opened: OpenedSource,
    given: dict[str, Any],
    tries: Sequence[ChosenShapes],
    progress: Progress,
) -> tuple[Composed, ChosenShapes]:
    """The model composed with the first shapes that fit it, and these shapes.

    Those that make a branch an error are taken only if no others fit. If two give the same error,
    most likely no size corrects it, and only the last is tried. Raises the first error.
    """
    first: NnefError | None = None
    found: tuple[Composed, ChosenShapes] | None = None
    before, is_repeated = "", False
    for shapes in tries:
        if is_repeated and shapes is not tries[-1]:
            continue
        try:
            made = _composed(opened, {**given, "input_shapes": shapes}, progress)
        except NnefError as problem:
            first = first or problem
            if not shapes.chosen:
                break
            is_repeated = is_repeated or str(problem) == before
            before = str(problem)
            continue
        found = found or (made, shapes)
        if not shapes.chosen or not _has_impossible_branch(made.graph.operations):
            return made, shapes
    if found is None:
        assert first is not None
        raise first
    return found


def _has_impossible_branch(nodes: Iterable[Node]) -> bool:
    """Whether the shapes of a graph make a branch that data may choose an error."""
    for node in nodes:
        match node:
            case If(consequent=consequent, alternative=alternative):
                inner = [*consequent.operations, *alternative.operations]
            case Operation(operator=name, body=Graph(operations=inside)):
                if name == _IMPOSSIBLE:
                    return True
                inner = list(inside)
            case Operation(operator=name):
                if name == _IMPOSSIBLE:
                    return True
                continue
            case Loop(body=body):
                inner = list(body.operations)
        if _has_impossible_branch(inner):
            return True
    return False


def _composed(opened: OpenedSource, given: dict[str, Any], progress: Progress) -> Composed:
    model, composing = load_to_compose(opened, given, progress)
    return Composed(model, composed(model, composing), asdict(composing), opened)


def _tries(options: argparse.Namespace) -> list[ChosenShapes]:
    """Shapes of the inputs, with one choice after the other for what is not given."""
    named, in_order, lengths = dict(options.shape), [], {}
    for each in getattr(options, "input", ()):
        name, equals, text = each.partition("=")
        if not equals or Path(each).is_file():
            in_order += _shapes_in(each)
        elif is_literal(text) and not Path(text).is_file():
            lengths[name] = count(text)
        elif name not in named:
            named |= dict(zip([name], filter(None, _shapes_in(text)), strict=False))
    return [ChosenShapes(named, in_order, each, lengths) for each in (None, *TRIED, SAMPLES)]


def _shapes_in(file: str) -> list[Sequence[int] | None]:
    """The shape of the array in a ``.npy`` file; None for anything else."""
    try:
        return [np.load(file, mmap_mode="r", allow_pickle=False).shape]
    except (OSError, ValueError, AttributeError, EOFError):
        return [None]  # An image, or what an error is reported for later.


def _report(shapes: ChosenShapes) -> str:
    given = [f"--shape {name}={','.join(map(str, each))}" for name, each in shapes.chosen.items()]
    return f"note: the model does not fix all sizes; chosen: {' '.join(given)}"

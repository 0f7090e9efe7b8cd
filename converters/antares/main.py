"""The converter of Antares IR: ``convert`` and ``einstein_v2`` turn a call into a SkriptND
model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_nnef.converters.antares import axes
from tvm_nnef.converters.antares.call import (
    Call,
    Input,
    call_of,
    checked_shape,
    read_call,
)
from tvm_nnef.converters.antares.parser import parse, statements_of, target_of
from tvm_nnef.converters.antares.statements import Conversion, Tensor
from tvm_nnef.converters.antares.syntax import MAX_TEXT
from tvm_nnef.converters.antares.text import Text
from tvm_nnef.converters.common.assembly import assemble
from tvm_nnef.converters.common.collected_errors import Problems
from tvm_nnef.converters.common.input_options import shapes_given
from tvm_nnef.diagnostics import Source, did_you_mean, error
from tvm_nnef.graph.machine_types import dtypes_given
from tvm_nnef.model.model import Model
from tvm_nnef.semantics.program import MAIN
from tvm_nnef.storage.container import is_text
from tvm_nnef.storage.metadata import Metadata
from tvm_nnef.storage.regular import open_regular
from tvm_nnef.syntax import parse as parse_skriptnd
from tvm_nnef.version import __version__

_GRAPH = "einstein"


def convert(
    source: str | bytes | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Model:
    """Convert the text of a call ``einstein_v2("…", {…})`` to a SkriptND model.

    Parameters
    ----------
    source
        A path, the text, or its bytes in UTF-8. The text is parsed; nothing in it is executed.
    input_shapes, dtypes
        Shapes and dtypes (NumPy's) of inputs, instead of those in ``input_dict``.

    Returns
    -------
    Model
        A graph that invokes an operator for each statement.

    Raises
    ------
    NnefError
        With line and column, for what is wrong with the text.
    """
    shapes, named = shapes_given(input_shapes), dtypes_given(dtypes)
    return _convert(read_call(_source(source)), shapes, named)


def einstein_v2(
    exprss: str,
    input_dict: Mapping[str, Mapping[str, Any]] | None = None,
    extra_outputs: Sequence[str] = (),
) -> Model:
    """Return the SkriptND model that expressions of Antares IR mean.

    Parameters
    ----------
    exprss
        Statements, separated by semicolons. The text is parsed; nothing in it is executed.
    input_dict
        The ``dtype`` and ``shape`` of each input, in the order of the inputs of the model.
    extra_outputs
        Results that are outputs besides that of the last statement. Outputs are in this order; the
        result of the last statement is the last one if it is not listed.

    Returns
    -------
    Model
        What every function of ``tvm_nnef`` takes.

    Raises
    ------
    NnefError
        With line and column in ``exprss``, for what is wrong with it.

    Examples
    --------
    >>> import tvm_nnef
    >>> from tvm_nnef.converters.antares import einstein_v2
    >>> model = einstein_v2("y[N] = x[N] * 2", {"x": {"dtype": "float32", "shape": [2]}})
    >>> tvm_nnef.evaluate(model, [1.0, 2.0])[0]
    array([2., 4.], dtype=float32)
    """
    return _convert(call_of(exprss, input_dict or {}, extra_outputs, "<einstein_v2>"), {}, {})


def _convert(
    call: Call, input_shapes: Mapping[str, Sequence[int | str]], dtypes: Mapping[str, str]
) -> Model:
    conversion, problems = Conversion(), Problems()
    inputs = _inputs(call.inputs, input_shapes, dtypes, call.text.source.path, problems)
    conversion.add_inputs(inputs)
    conversion.broken.update(name for name in call.inputs if name not in inputs)
    for text in statements_of(call.text):
        _convert_statement(text, conversion, problems)
    outputs = _outputs(call, conversion, problems)
    problems.check()
    return _assembled(conversion, outputs, call.text.source.path)


def _convert_statement(text: Text, conversion: Conversion, problems: Problems) -> None:
    """Convert a statement. Its result is unknown if it is wrong, or reads an unknown tensor."""
    with problems.collected():
        statement = parse(text)
        if conversion.broken.isdisjoint(each.tensor for each in axes.accesses(statement)):
            conversion.add(statement)
            return
    conversion.broken.add(target_of(text))


def _source(source: str | bytes | os.PathLike[str]) -> Source:
    if isinstance(source, str) and is_text(source):
        return _limited(Source("<text>", source))
    path = "<bytes>" if isinstance(source, bytes) else str(source)
    try:
        data = source if isinstance(source, bytes) else _head(Path(source))
        return _limited(Source(path, data.decode("utf-8-sig")))
    except OSError as cause:
        hint = "check the path and its permissions"
        raise error(f"cannot be read: {cause.strerror or cause}", hint=hint, file=path) from cause
    except UnicodeDecodeError as cause:
        message = f"the text is not UTF-8: byte {cause.start}"
        raise error(message, hint="save it as UTF-8", file=path) from cause


def _head(path: Path) -> bytes:
    """Return the content of a file, cut at a size that exceeds the limit of characters."""
    with open_regular(path) as file:
        return file.read(4 * MAX_TEXT + 4)


def _limited(source: Source) -> Source:
    if len(source.text) > MAX_TEXT:
        message = f"the text has more than {MAX_TEXT} characters"
        raise error(message, hint="divide the model", file=source.path)
    return source


def _inputs(
    declared: Mapping[str, Input],
    input_shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    path: str,
    problems: Problems,
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the dtype of each input, without those that are wrong."""
    for name in sorted({*input_shapes, *dtypes} - {*declared}):
        hint = did_you_mean(name, declared) or f"inputs are {', '.join(declared) or 'none'}"
        raise error(f"the model has no input '{name}'", hint=hint, file=path)
    inputs: dict[str, tuple[tuple[int, ...], str]] = {}
    for name, each in declared.items():
        with problems.collected():
            inputs[name] = _input(name, each, input_shapes.get(name), dtypes.get(name))
    return inputs


def _input(
    name: str, declared: Input, given: Sequence[int | str] | None, dtype: str | None
) -> tuple[tuple[int, ...], str]:
    """Return the shape and the dtype of an input: as they are given, else as they are declared."""
    span = declared.span
    shape = declared.shape if given is None else checked_shape(given, name, span)
    dtype = dtype or declared.dtype
    if shape is None or dtype is None:
        lacking = "shape" if shape is None else "dtype"
        hint = 'write {"dtype": "float32", "shape": [16, 4]}'
        raise error(f"input '{name}' has no {lacking}", span, hint=hint)
    if not name.isidentifier() or not name.isascii():
        hint = "names are letters, digits and '_'"
        raise error(f"'{name}' cannot be the name of an input", span, hint=hint)
    return shape, dtype


def _outputs(call: Call, conversion: Conversion, problems: Problems) -> list[Tensor]:
    """Return the outputs of the graph, without those that are unknown."""
    computed = {
        name: each for name, each in conversion.current.items() if each not in conversion.inputs
    }
    outputs: list[Tensor] = []
    for name, span in call.extra_outputs:
        if name in conversion.broken:
            continue
        with problems.collected():
            if name not in computed:
                known = [*computed, *sorted(conversion.broken)]
                hint = did_you_mean(name, known) or f"results are {', '.join(known)}"
                raise error(f"no statement computes '{name}'", span, hint=hint)
            if computed[name] in outputs:
                raise error(f"'{name}' is listed twice", span, hint="remove one of them")
            outputs.append(computed[name])
    last = conversion.results[-1:]
    return outputs if last and last[0] in outputs else [*outputs, *last]


def _assembled(conversion: Conversion, outputs: Sequence[Tensor], path: str) -> Model:
    inputs = " ".join(each.declaration for each in conversion.inputs)
    results = " ".join(each.declaration for each in outputs)
    components = "\n".join(conversion.components)
    imports = "import layout;\n" if "layout." in components else ""
    graph = conversion.names.name(_GRAPH)
    block = f"@input {{ {inputs} }}\n" if inputs else ""
    body = f"{block}@output {{ {results} }}\n@compose {{\n{components}\n}}"
    text = f"{imports}graph {graph} {{\n{body}\n}}\n"
    tensors = [*conversion.inputs, *conversion.results]
    scope = f"{MAIN}.{graph}"
    metadata = Metadata(
        machine_types={f"{scope}.{each.name}": each.dtype for each in tensors},
        source_names={f"{scope}.{each.name}": each.source for each in tensors},
    )
    header = f"Converted from Antares IR by tvm-nnef {__version__}."
    parsed = parse_skriptnd(text, path)
    main = replace(parsed, definitions=(*conversion.operators, *parsed.definitions))
    return Model(*assemble(main, {}, {}, metadata, path=path, header=header))

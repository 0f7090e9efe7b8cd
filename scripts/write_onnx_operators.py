"""Write the table of ``docs/onnx-operators.md``: the operators of ONNX, and how each is converted.

It is read off the table of converters and ONNX's schemas. A converter that raises on every path
counts as none. Exit status 1 with ``--check`` if the page is not what would be written. It needs
the package onnx.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnx
from generated_page import DOCS, with_end, write

from tvm_nnef.converters.onnx import caches, functions, registry
from tvm_nnef.converters.onnx.propagation import is_shape_arithmetic
from tvm_nnef.converters.onnx.sequences import is_sequence_operator

PAGE = DOCS / "onnx-operators.md"
SCRIPT = "write_onnx_operators.py"

CLASSICAL = "ai.onnx.ml"
"""The domain of classical machine learning."""

OWN, BODY, NONE = "own converter", "ONNX's definition", "not converted"
"""The conversion of an operator."""

TEXTS = "texts are not supported; encode them as integers before the model"
NOTES: Mapping[str, str] = {
    "Dropout": "not in training mode, which drops elements at random",
    "ImageDecoder": "decode images before the model",
    "Optional": "not of a missing tensor",
    "RegexFullMatch": TEXTS,
    "Scan": "in opset 8 without sequences of different lengths",
    "StringConcat": TEXTS,
    "StringNormalizer": TEXTS,
    "StringSplit": TEXTS,
    "TfIdfVectorizer": "integers only",
    "CastMap": "dictionaries are not supported",
    "CategoryMapper": "texts as results only, by their indices",
    "DictVectorizer": "dictionaries are not supported",
    "LabelEncoder": "texts as results only, by their indices",
    "OneHotEncoder": "integers and reals only",
    "SVMClassifier": "not of two classes without support vectors",
    "ZipMap": "the scores as a tensor, in the order of the labels",
    "SVMRegressor": "without a transform of the score",
    "GroupQueryAttention": "without quantized caches and `sliding_window_cache`",
    "MoE": "without `use_sparse_mixer`",
    **dict.fromkeys(("MultiHeadAttention", "DecoderMaskedMultiHeadAttention"),
                    "without beams (`cache_indirection`)"),
    **dict.fromkeys(("LinearRegressor", "TreeEnsemble", "TreeEnsembleRegressor"),
                    "no transform of a single score but PROBIT"),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                     "Bernoulli", "Multinomial"), "the same numbers in each run, from its seed"),
    **dict.fromkeys(("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
                     "SequenceInsert", "SequenceLength", "SplitToSequence"),
                    "items of one shape, if their number is known only at run time"),
    **dict.fromkeys(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu",
                     "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax"),
                    "not with `channels_last`"),
}  # fmt: skip
"""The parts of an operator that are not converted, and remarks about it."""


@dataclass(frozen=True)
class Entry:
    """An operator: the opsets whose versions of it are converted, and how that is done."""

    name: str
    domain: str
    opsets: Sequence[int]
    kind: str


def always_raises(function: Any) -> bool:
    """Whether a converter's function has no way to return."""
    while isinstance(function, partial):
        function = function.func
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return not any(isinstance(each, (ast.Return, ast.Lambda)) for each in ast.walk(tree))


def entries() -> list[Entry]:
    """The operators of ONNX's domains, and those of others that are converted."""
    found = {}
    for key, converters in registry.standard().items():
        opsets = [each.since for each in converters if not always_raises(each.function)]
        found |= {key: min(opsets)} if opsets else {}
    versions = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in ("", CLASSICAL):
            versions[schema.domain, schema.name].append(schema)
    standard = [_entry(schemas, found.get(key)) for key, schemas in versions.items()]
    others = [
        Entry(name, domain, [since], OWN)
        for (domain, name), since in found.items()
        if (domain, name) not in versions and domain != caches.DOMAIN
    ]
    kinds = {each.name: each.kind for each in standard if not each.domain}
    others += [Entry(name, "com.microsoft", [1], kinds[name]) for name in functions.TAKEN_OVER]
    return sorted([*standard, *others], key=lambda each: (each.domain, each.name))


def _entry(schemas: Sequence[Any], since: int | None) -> Entry:
    """The entry of an operator, by its versions and the first opset of its converter."""
    newest = max(schemas, key=lambda each: each.since_version)
    node = onnx.helper.make_node(newest.name, [], [], domain=newest.domain)
    if since is not None or is_shape_arithmetic(node) or is_sequence_operator(node):
        kind, converted = OWN, schemas
    elif _has_body(newest):
        kind, converted = BODY, [each for each in schemas if _has_body(each)]
    else:
        kind, converted = NONE, []
    opsets = [each.since_version for each in converted if each.since_version >= (since or 1)]
    return Entry(newest.name, newest.domain, sorted(opsets), kind)


def _has_body(schema: Any) -> bool:
    return bool(schema.has_function or schema.has_context_dependent_function)


def table() -> Iterator[str]:
    """The rows of the page."""
    yield f"The newest opset of the standard domain here is {onnx.defs.onnx_opset_version()}.\n"
    yield "| operator | versions of opsets | by | notes |"
    yield "|---|---|---|---|"
    for each in entries():
        opsets = ", ".join(map(str, each.opsets))
        yield f"| {_linked(each)} | {opsets} | {each.kind} | {NOTES.get(each.name, '')} |"


def _linked(entry: Entry) -> str:
    if entry.domain == CLASSICAL:
        page = f"https://onnx.ai/onnx/operators/onnx_aionnxml_{entry.name}.html"
        return f"[`{entry.domain}.{entry.name}`]({page})"
    if entry.domain or not onnx.defs.has(entry.name):
        return f"`{entry.domain}.{entry.name}`" if entry.domain else f"`{entry.name}`"
    return f"[`{entry.name}`](https://onnx.ai/onnx/operators/onnx__{entry.name}.html)"


def text() -> str:
    """The page."""
    return with_end(PAGE, SCRIPT, "\n".join(table()) + "\n")


if __name__ == "__main__":
    sys.exit(write(PAGE, text, __doc__))

"""Cache of syntax trees between processes, in the user's cache folder.

Input: text. Output: its tree, as from :func:`tvm_nnef.syntax.parser.parse`, but sooner if the same
text was parsed before. Errors of reading and writing are ignored. The cache stores the class, the
fields and the two offsets of each node; the caller provides the source. Reading a tree constructs
nodes and nothing else, whatever a file contains.
"""

from __future__ import annotations

import contextlib
import functools
import io
import pickle
import platform
from collections.abc import Callable
from importlib import resources
from typing import Any

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.support import user_cache
from tvm_nnef.syntax import nodes


def parse_cached(text: str, path: str = "<text>", dialect: str = "draft") -> nodes.Module:
    """Parse a file, or take its tree from the cache; raises :class:`NnefError` like ``parse``."""
    name = f"tree-{user_cache.key_of(text, dialect, _version_key())}.bin"
    data = user_cache.read(name)
    module = None if data is None else decode(data, Source(path, text))
    if module is None:
        # Only now: lark and the grammar's tables are not needed for a tree that is kept.
        from tvm_nnef.syntax.parser import parse

        module = parse(text, path, dialect)
        # A caller may be deep in the stack already; then the tree is not kept.
        with contextlib.suppress(RecursionError):
            user_cache.write(name, encode(module))
    return module


def encode(module: nodes.Module) -> bytes:
    """Return a module as bytes, without its source."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(module)
    return buffer.getvalue()


def decode(data: bytes, source: Source) -> nodes.Module | None:
    """Return the module of some bytes, its spans in ``source``; None if the bytes are damaged."""
    try:
        module = _Unpickler(data, source).load()
    except _DAMAGE:
        return None
    return module if isinstance(module, nodes.Module) else None


_DAMAGE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)
"""Exceptions that unpickling raises for damaged bytes."""


def _node(node_class: type[nodes.Node], start: int, end: int, *fields: Any) -> nodes.Node:
    """Reject a node: pickles call this function for each, and the unpickler replaces it."""
    raise pickle.UnpicklingError("a node was read without a source")


class _Pickler(pickle.Pickler):
    """A pickler that writes nodes as calls of :func:`_node`."""

    def reducer_override(self, value: object) -> Any:
        if not isinstance(value, nodes.Node):
            return NotImplemented
        names: tuple[str, ...] = value.__match_args__
        fields = (getattr(value, name) for name in names)
        return _node, (type(value), value.span.start, value.span.end, *fields)


class _Unpickler(pickle.Unpickler):
    """An unpickler that reads nodes, and rejects all other objects."""

    def __init__(self, data: bytes, source: Source) -> None:
        super().__init__(io.BytesIO(data))
        self._make = functools.partial(_make, source)

    def find_class(self, module: str, name: str) -> Any:
        if name == _node.__name__:
            return self._make
        found = getattr(nodes, name, None)
        if isinstance(found, type) and issubclass(found, nodes.Node):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is not a node")


def _make(
    source: Source, node_class: Callable[..., nodes.Node], start: int, end: int, *fields: Any
) -> nodes.Node:
    return node_class(*fields, span=Span(source, start, end))


_MAKERS_OF_TREES = (
    "grammar.lark", "draft.lark", "tools.lark", "spelling.py", "strings.py", "rules.py",
    "tools_rules.py", "expressions.py", "statements.py",
)  # fmt: skip
"""The files of this package that determine the tree of a text."""


@functools.cache
def _version_key() -> str:
    folder = resources.files(__package__)
    files = [folder.joinpath(name).read_bytes() for name in _MAKERS_OF_TREES]
    return user_cache.key_of(*files, platform.python_version())

"""The parser tables of a dialect.

Input: the name of a dialect. Output: a :class:`lark.Lark`, made from ``grammar.lark`` and the file
of the dialect or, faster, from the tables that an earlier process has cached. This module does not
depend on syntax trees.
"""

from __future__ import annotations

import functools
import io
import pickle
import platform
from importlib import resources

import lark

from tvm_nnef.support import user_cache
from tvm_nnef.syntax.spelling import spelling_of

STARTS = ("module", "expression")
"""Start symbols of the grammar: texts that can be parsed alone."""


def grammar_text(dialect: str) -> str:
    """Return the grammar of a dialect; raise :class:`NnefError` if the dialect is unknown."""
    reserved = "|".join(sorted(spelling_of(dialect).reserved))
    folder = resources.files(__package__)
    files = (folder.joinpath(name) for name in ("grammar.lark", f"{dialect}.lark"))
    identifier = rf"IDENTIFIER: /(?!(?:{reserved})(?![A-Za-z0-9_]))[A-Za-z_][A-Za-z0-9_]*/"
    return "\n".join((*(file.read_text("utf-8") for file in files), identifier, ""))


def build(dialect: str, *, strict: bool = False) -> lark.Lark:
    """Make the tables again; ``strict`` refuses every conflict (and needs ``interegular``)."""
    return _build(grammar_text(dialect), STARTS, strict=strict)


def _build(text: str, starts: tuple[str, ...], *, strict: bool = False) -> lark.Lark:
    return lark.Lark(
        text,
        parser="lalr",
        lexer="contextual",
        start=list(starts),
        propagate_positions=True,
        maybe_placeholders=True,
        strict=strict,
    )


@functools.cache
def load(dialect: str) -> lark.Lark:
    """Return the tables of a dialect."""
    return load_tables(grammar_text(dialect), STARTS)


def load_tables(text: str, starts: tuple[str, ...]) -> lark.Lark:
    """Return the tables of a grammar, from the user's cache folder if they are kept there."""
    key = user_cache.key_of(text, *starts, lark.__version__, platform.python_version())
    name = f"tables-{key}.bin"
    data = user_cache.read(name)
    if data is not None:
        try:
            return lark.Lark.load(io.BytesIO(data))
        except _UNREADABLE:
            pass
    tables = _build(text, starts)
    buffer = io.BytesIO()
    tables.save(buffer)
    user_cache.write(name, buffer.getvalue())
    return tables


_UNREADABLE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    AssertionError,
    lark.exceptions.LarkError,
)
"""Exceptions that reading the tables from a damaged file raises."""

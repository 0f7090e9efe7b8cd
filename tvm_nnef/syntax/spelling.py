"""Spelling of operators and reserved words in each dialect.

Two tables of words. Other differences are in the modules that read the tables (``draft.lark``,
``tools.lark``, :mod:`~tvm_nnef.syntax.tools_rules`) and in the printers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tvm_nnef.diagnostics import error
from tvm_nnef.symbolic.functions import FUNCTIONS

BUILTIN_FUNCTIONS = frozenset(FUNCTIONS)
"""The built-in scalar functions, which the tools dialect separates from invocations by name."""

STRING = r""""[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)"""
"""The pattern (with DOTALL) of a string literal; one that is never closed ends with the text.

If it did not match, each quote in the rest of the text would be tried, in quadratic time.
"""

_KEYWORDS = frozenset(
    (
        "import", "graph", "public", "operator", "optional", "type", "arith", "num", "int", "real",
        "bool", "str", "inf", "pi", "true", "false", "in", "if", "then", "else", "elif", "do",
        "for", "while", "with", "yield", "unroll",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spelling:
    """The words of a dialect.

    ``operators`` and ``assignments`` map the tree's names of operators to signs if both differ;
    ``reserved`` are the words that cannot be names. (In the draft ``is`` can be a name, wherever an
    operator is not allowed.)
    """

    dialect: str
    operators: Mapping[str, str]
    assignments: Mapping[str, str]
    reserved: frozenset[str]

    @property
    def is_tools(self) -> bool:
        """Whether this is the dialect of Khronos's tools of 2026."""
        return self.dialect == "tools"


DRAFT = Spelling(
    "draft",
    MappingProxyType({"min": "<<", "max": ">>"}),
    MappingProxyType({"min=": "<=", "max=": ">="}),
    _KEYWORDS | {"_"},
)
TOOLS = Spelling(
    "tools",
    MappingProxyType({"min": "<?", "max": ">?"}),
    MappingProxyType({"min=": "<?=", "max=": ">?="}),
    _KEYWORDS | {"static", "dynamic", "as", "is"},
)

SPELLINGS = MappingProxyType({"draft": DRAFT, "tools": TOOLS})
"""The dialects by name."""


def spelling_of(dialect: str) -> Spelling:
    """Return the spelling of a dialect; raise :class:`NnefError` if the dialect is unknown."""
    if dialect not in SPELLINGS:
        dialects = " or ".join(f"'{name}'" for name in SPELLINGS)
        raise error(f"no dialect is called '{dialect}'", hint=f"use {dialects}")
    return SPELLINGS[dialect]

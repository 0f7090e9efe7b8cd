"""How the dialects spell what they both can say, and the words that they reserve.

Two tables of words. What differs in more than words is in the modules that read it
(``draft.lark``, ``tools.lark``, :mod:`~tvm_nnef.syntax.tools_rules`) and with the printers.
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

    ``operators`` and ``assignments`` give the signs of those in the tree that are not spelled like
    their names; ``reserved`` are the words that cannot be names. (In the draft ``is`` can be one,
    wherever an operator is not allowed.)
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
    """The spelling of a dialect; an :class:`NnefError` if the dialect is unknown."""
    if dialect not in SPELLINGS:
        known = " or ".join(f"'{name}'" for name in SPELLINGS)
        raise error(f"no dialect is called '{dialect}'", hint=f"use {known}")
    return SPELLINGS[dialect]

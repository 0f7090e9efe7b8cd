"""Conversion between SkriptND text and syntax trees: ``parse``, ``print_module``, and the nodes.

Importing this package costs nothing; lark is imported when the first text is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_nnef.syntax.cache import parse_cached as parse_cached
    from tvm_nnef.syntax.dialect import detect as detect
    from tvm_nnef.syntax.formatter import format_text as format_text
    from tvm_nnef.syntax.parser import parse as parse
    from tvm_nnef.syntax.parser import parse_expression as parse_expression
    from tvm_nnef.syntax.printer import print_expression as print_expression
    from tvm_nnef.syntax.printer import print_module as print_module

__all__ = [
    "detect",
    "format_text",
    "parse",
    "parse_cached",
    "parse_expression",
    "print_expression",
    "print_module",
]

_HOMES = {
    "detect": "dialect",
    "format_text": "formatter",
    "parse": "parser",
    "parse_cached": "cache",
    "parse_expression": "parser",
    "print_expression": "printer",
    "print_module": "printer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

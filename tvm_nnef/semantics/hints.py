"""Hints that several checks give."""

from __future__ import annotations

from collections.abc import Collection

LENGTHS = "make them equally long; 'a[0:n]' are the first n items of a pack"
STRIDE = "leave it out for steps of 1, or write -1 to go backwards"
NOT_NEGATIVE = "write a whole number, 0 or more, or a name such as 'n' for any"
LOOP = "give packs to scan ('for x : xs'), a count ('do..(n)') or a condition ('while c')"
ONE_INDEX = "write one index, as in 'a[i]'; 'a[[i, j]]' and 'a[b:e]' take several items"
SUBSTITUTION = "a single value is chosen by a condition, as in 'c ? a : b'"
CONDITION = "compare it, as in 'n != 0' or 'math.gt(x, 0.0)'"


def index(length: int) -> str:
    """Return a hint about the valid indices of a pack or a string of a length."""
    if length == 0:
        return "it is empty: an index needs at least one item"
    return f"use an index from 0 to {length - 1}, or from -{length} to -1 to count from the end"


def single(text: str) -> str:
    """Return a hint for a pack where one value is needed."""
    return f"take an item, as in '{text}[0]', or fold it, as in '{text} + ..'"


def parts(taken: int, flexible: bool) -> str:
    """Return a hint about the number of items that a list on the left gets."""
    if flexible:
        return f"the parts of known length take {taken} items: shorten one, or leave one out"
    return f"it takes {taken} items: add a name with '..' for the rest, as in '[a, b..]'"


def one_type(types: Collection[str]) -> str:
    """Return a hint how to convert values of different types to one."""
    if set(types) == {"int", "real"}:
        return "write the integers as reals, as in '1.0' and 'real(n)'"
    if "str" in types:
        return "only strings go with strings: write the other as one, as in '{n}' between quotes"
    return "convert one of them, as in 'int(b)'"

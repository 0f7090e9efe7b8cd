"""The words of the language, read from the grammar: keywords, types, blocks, operators.

Highlighters and completion of SkriptND take their words from here, so that none is forgotten.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tvm_nnef.syntax import grammar
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS, SPELLINGS, spelling_of

_WORD = re.compile(r"^(@?)(?:\(\?:)?([a-z|]+)\)?\(\?!\[A-Za-z0-9_\]\)$")
"""A terminal of the grammar that is a word, or one of several words."""

_CONSTANTS = ("TRUE", "FALSE", "INFINITY", "PI")
_WORD_OPERATORS = ("IS", "IN")
_DECLARING = ("IMPORT", "PUBLIC", "OPERATOR", "GRAPH")
_MODIFIERS = ("OPTIONAL", "STATIC", "DYNAMIC")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a dialect, each in one group, and its signs, the longest first.

    ``declaring`` words begin a definition or an import, ``modifiers`` precede a type or a size,
    ``control`` are all other keywords; ``blocks`` have an ``@`` before them.
    """

    declaring: tuple[str, ...]
    modifiers: tuple[str, ...]
    control: tuple[str, ...]
    operators: tuple[str, ...]
    types: tuple[str, ...]
    constants: tuple[str, ...]
    blocks: tuple[str, ...]
    functions: tuple[str, ...]
    signs: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """All words but the names of blocks and functions."""
        groups = (self.declaring, self.modifiers, self.control, self.operators)
        return frozenset(word for group in (*groups, self.types, self.constants) for word in group)


@functools.cache
def vocabulary_of(dialect: str) -> Vocabulary:
    """Return the words of a dialect; raise :class:`NnefError` if there is no such dialect."""
    words_by_group: dict[str, list[str]] = {}
    signs = set[str]()
    for terminal in grammar.load(dialect).terminals:
        name, pattern = terminal.name.lstrip("_"), terminal.pattern
        word = _WORD.match(pattern.value)
        if pattern.type == "str":
            signs.add(pattern.value)
        elif word:
            words_by_group.setdefault(_group(name, word[1]), []).extend(word[2].split("|"))
    reserved = spelling_of(dialect).reserved
    used = {word for words in words_by_group.values() for word in words}
    words_by_group["control"] += [word for word in reserved - used if word.isalpha()]
    groups = {group: tuple(sorted(words)) for group, words in words_by_group.items()}
    return Vocabulary(
        **groups,
        functions=tuple(sorted(BUILTIN_FUNCTIONS)),
        signs=tuple(sorted(signs | {"<", ">"}, key=lambda sign: (-len(sign), sign))),
    )


def _group(name: str, at: str) -> str:
    groups = {
        **dict.fromkeys(_CONSTANTS, "constants"),
        **dict.fromkeys(_WORD_OPERATORS, "operators"),
        **dict.fromkeys(_DECLARING, "declaring"),
        **dict.fromkeys(_MODIFIERS, "modifiers"),
        "TYPE": "types",
    }
    return "blocks" if at else groups.get(name, "control")


def merged_vocabulary() -> Vocabulary:
    """Return the words of all dialects."""
    every = [vocabulary_of(dialect) for dialect in SPELLINGS]
    groups = {
        name: tuple(sorted({word for each in every for word in getattr(each, name)}))
        for name in Vocabulary.__dataclass_fields__
    }
    groups["signs"] = tuple(sorted(groups["signs"], key=lambda sign: (-len(sign), sign)))
    return Vocabulary(**groups)

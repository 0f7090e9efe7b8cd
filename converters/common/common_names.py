"""What the names of the source have in common, from one repetition of a block to the next.

Names in, as many lists as there are repetitions; words out, from which ``naming`` makes
identifiers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tvm_nnef.converters.common.names import parts

Scopes: TypeAlias = "Sequence[tuple[str, ...]]"
"""For each repetition the words with which its names begin; () if there are none."""

_VAGUE = frozenset(("layer", "block", "stage", "module", "cell", "unit"))
"""Names that say more together with the one around them."""

_SHORTEST = 3
_FEW = 3
_FEW_WORDS = 2
_FINAL_NUMBER = re.compile(r"\d+[a-z]?$")
"""As in ``layer2``, or ``inception_3a``."""


def scopes_of(names: Sequence[Sequence[str]]) -> Scopes:
    """The words that most names of a repetition begin with, and none of the others does.

    Where it is the same module again and again, those that most names of all begin with.
    """
    counts = [Counter(_beginnings(each)) for each in names]
    present = Counter(beginning for count in counts for beginning in count)
    found: list[tuple[str, ...]] = []
    for own, count in zip(names, counts, strict=True):
        most = [each for each in count if 2 * count[each] > len(own) > 1]
        alone = [each for each in most if present[each] == 1]
        shared = [e for e in most if present[e] == len(names) and len(e) > _FEW_WORDS]
        found.append(min(alone or shared, key=lambda each: (-count[each], -len(each)), default=()))
    return found


def _beginnings(names: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for name in names:
        words = parts(name)
        yield from (words[:length] for length in range(1, len(words)))


def _without_numbers(words: Iterable[str]) -> tuple[str, ...]:
    plain = (_FINAL_NUMBER.sub("", word) for word in words)
    return tuple(filter(None, plain))


def _each_once(words: Sequence[str]) -> list[str]:
    """``layer layer`` of torch's ``layer2/layer2.0`` says no more than ``layer``."""
    return [word for word, before in zip(words, ("", *words), strict=False) if word != before]


def title(scopes: Scopes, operators: Sequence[str]) -> str:
    """What a block is called that has these scopes, and invokes these operators.

    After what all scopes have in common, else after its operators.
    """
    patterns = set(map(_without_numbers, scopes))
    words = _each_once(patterns.pop() if len(patterns) == 1 else ())
    if not words:
        invoked = list(dict.fromkeys(operators))
        return "_".join(invoked) if len(invoked) <= _FEW else f"{invoked[0]}_block"
    taken = [words[-1] if len(words[-1]) >= _SHORTEST else "block"]
    around = words[:-1]
    vague = taken[0].lower().removesuffix("s") in _VAGUE
    taken[0] = taken[0].removesuffix("s") if vague else taken[0]
    while vague and around:
        taken.insert(0, around.pop())
        vague = len(taken[0]) < _SHORTEST
    name = "_".join(taken)
    return f"{name}_block" if name in operators else name


def common_name(names: Iterable[str], scopes: Scopes) -> str:
    """The most frequent name of a tensor in the repetitions; empty if its names have no words.

    Without the words of the scope, and if that is not enough without numbers.
    """
    every = [_inside(parts(name), scope) for name, scope in zip(names, scopes, strict=True)]
    most, count = Counter(every).most_common(1)[0]
    if 2 * count > len(every):
        return "_".join(most)
    plain, count = Counter("_".join(_without_numbers(each)) for each in every).most_common(1)[0]
    shows = len(plain) > _SHORTEST and not plain.startswith("onnx_")
    return plain if shows and 2 * count > len(every) else ""


def _inside(words: tuple[str, ...], scope: tuple[str, ...]) -> tuple[str, ...]:
    return words[len(scope) :] if words[: len(scope)] == scope else words

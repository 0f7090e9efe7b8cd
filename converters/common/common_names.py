"""Common parts of the names of the source in all repetitions of a block.

Input: a list of names for each repetition. Output: words, from which ``naming`` makes
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
"""Words that are too general unless they are combined with the word before."""

_PARTS = tuple(
    (re.compile(rf"(?<!\S)(?:{pattern})(?!\S)"), name)
    for pattern, name in (
        (
            "mean_reduce sub (pow|sqr|mul) mean_reduce add (sqrt div|rsqrt mul|sqrt rcp mul)",
            "layer_norm",
        ),
        ("(pow|sqr|mul) mean_reduce add (sqrt div|rsqrt mul|sqrt rcp mul)", "rms_norm"),
        ("(div|mul) erf add mul( mul)?", "gelu"),
        ("add (max min|min max|clamp) (mul|div) (mul|div)", "hard_swish"),
        (
            r"mean_reduce conv( add)? \w*relu conv( add)? (hard_sigmoid|sigmoid) mul",
            "squeeze_excite",
        ),
        ("matmul( (mul|div|add|select))* softmax matmul", "attention"),
        ("div round_even cast add saturate cast", "quantize"),
        ("cast sub cast mul", "dequantize"),
    )
)
"""Operators that runs of others compute together, by the operators of the run."""

_NORMS = frozenset(("layer_norm", "rms_norm"))

_AUXILIARY = frozenset(
    (
        *("add", "sub", "mul", "div", "pow", "sqrt", "max", "min", "cast", "mean_reduce"),
        *("reshape", "transpose", "slice", "squeeze", "unsqueeze", "concat", "expand"),
    )
)
"""Operators that are everywhere: they do not describe a block."""

_SHORTEST = 3
_FEW = 3
_FEW_WORDS = 2
_FINAL_NUMBER = re.compile(r"\d+[a-z]?$")
"""A number at the end of a word, as in ``layer2``, or ``inception_3a``."""


def scopes_of(names: Sequence[Sequence[str]]) -> Scopes:
    """Return the common first words of most names in each repetition that no other one has.

    If the same module is invoked repeatedly, they are the common first words of all repetitions.
    """
    counts = [Counter(_beginnings(each)) for each in names]
    present = Counter(beginning for count in counts for beginning in count)
    scopes: list[tuple[str, ...]] = []
    for own, count in zip(names, counts, strict=True):
        most = [each for each in count if 2 * count[each] > len(own) > 1]
        alone = [each for each in most if present[each] == 1]
        shared = [e for e in most if present[e] == len(names) and len(e) > _FEW_WORDS]
        scopes.append(min(alone or shared, key=lambda each: (-count[each], -len(each)), default=()))
    return scopes


def _beginnings(names: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for name in names:
        words = parts(name)
        yield from (words[:length] for length in range(1, len(words)))


def _without_numbers(words: Iterable[str]) -> tuple[str, ...]:
    plain = (_FINAL_NUMBER.sub("", word) for word in words)
    return tuple(filter(None, plain))


def _each_once(words: Sequence[str]) -> list[str]:
    """Return the words without repeated ones: torch's ``layer2/layer2.0`` is ``layer layer``."""
    return [word for word, before in zip(words, ("", *words), strict=False) if word != before]


def title(scopes: Scopes, operators: Sequence[str]) -> str:
    """Return a title for a block with these scopes, which invokes these operators.

    It is made of the common words of all scopes, or else of the operators.
    """
    patterns = set(map(_without_numbers, scopes))
    words = _each_once(patterns.pop() if len(patterns) == 1 else ())
    if not words:
        name = purpose(operators)
        return f"{name}_block" if name in operators else name
    chosen = [words[-1] if len(words[-1]) >= _SHORTEST else "block"]
    around = words[:-1]
    vague = chosen[0].lower().removesuffix("s") in _VAGUE
    chosen[0] = chosen[0].removesuffix("s") if vague else chosen[0]
    while vague and around:
        chosen.insert(0, around.pop())
        vague = len(chosen[0]) < _SHORTEST
    name = "_".join(chosen)
    return f"{name}_block" if name in operators else name


def purpose(operators: Sequence[str]) -> str:
    """Return what a block of these operators computes, if they show it.

    >>> purpose(["mul", "add", "add", "max", "min", "mul", "div", "add"])
    'hard_swish'
    """
    text = " ".join(operators)
    for pattern, name in _PARTS:
        text = pattern.sub(name, text)
    words = list(dict.fromkeys(text.split()))
    if "attention" in words:
        return "attention" if _NORMS.isdisjoint(words) else "transformer_layer"
    known = {name for _, name in _PARTS} - set(operators)
    for chosen in (
        [word for word in words if word not in _AUXILIARY],
        [word for word in words if word in known],
        words,
    ):
        if 0 < len(chosen) <= _FEW:
            return "_".join(chosen)
    return f"{words[0]}_block"


def common_name(names: Iterable[str], scopes: Scopes) -> str:
    """Return the most frequent name of a tensor in the repetitions; empty if its names have no
    words.

    The words of the scope are removed, and numbers if that is necessary for a common name.
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

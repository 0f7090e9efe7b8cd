"""Conversion of names of the source, which may be any text, into identifiers.

Input: any text. Output: an identifier that is valid in a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256

from tvm_nnef.syntax.spelling import DRAFT, TOOLS

_IDENTIFIER = re.compile(r"_*[A-Za-z][A-Za-z0-9_]*")
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_LONGEST = 112
"""Upper limit of the length of an identifier: a variable's file has the names of graph and
variable.
"""
_DIGEST = 8
_OUTPUT = re.compile(r"_output_0(?=$|_[a-z]+$)")


def without_suffix(name: str) -> str:
    """Return a name without the suffix of torch's exporter: ``/conv/Conv_output_0``."""
    return _OUTPUT.sub("", name) if name.startswith("/") else name


def parts(name: str) -> tuple[str, ...]:
    """Return the words and numbers in a name of the source."""
    return tuple(filter(None, _SEPARATORS.split(without_suffix(name))))


def shows(source: str) -> bool:
    """Whether the name of a weight is more than a word with a number."""
    words = sum(not part.isdigit() for part in parts(source))
    return words > 1 and not source.startswith("onnx::")


def is_path(source: str) -> bool:
    """Whether a name is the path of a tensor in a network of modules."""
    return "/" in source or "." in source


class UniqueNames:
    """A generator of unique names: the wanted one if it is free, else with the first free number.

    ``key`` maps a name to the part that must differ, such as ``str.lower`` for names of files.
    """

    def __init__(self, taken: Iterable[str] = (), key: Callable[[str], str] = str) -> None:
        """Create the generator; ``taken`` are names to avoid."""
        self._key = key
        self._taken = set(map(key, taken))
        self._next: dict[str, int] = {}

    @property
    def taken(self) -> frozenset[str]:
        """The keys of the names in use."""
        return frozenset(self._taken)

    def avoid(self, *names: str) -> None:
        """Reserve names, whether they are in use or not."""
        self._taken.update(map(self._key, names))

    def name(self, wanted: str) -> str:
        """Return a name that is not in use."""
        name, number = wanted, self._next.get(wanted, 2)
        while self._key(name) in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._next[wanted] = number
        self._taken.add(self._key(name))
        return name


class Namer(UniqueNames):
    """A generator of unique identifiers, each as similar to the wanted text as possible."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Create the generator; ``taken`` are names to avoid besides the reserved words."""
        super().__init__((*DRAFT.reserved, *TOOLS.reserved, *taken))

    def name(self, wanted: str) -> str:
        """Return an identifier that is not in use."""
        return super().name(identifier(wanted))


def identifier(text: str) -> str:
    """Return a text with all invalid characters of an identifier replaced; never empty nor too
    long.
    """
    plain = text
    if not _IDENTIFIER.fullmatch(text):
        plain = _OTHER.sub("_", text).strip("_")
        plain = f"x{plain}" if not plain or plain[0].isdigit() else plain
    if len(plain) <= _LONGEST:
        return plain
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: _LONGEST - _DIGEST - 1]}_{digest}"

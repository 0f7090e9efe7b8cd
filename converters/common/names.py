"""Names of the source, which may be any text, as identifiers that a model may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256

from tvm_nnef.syntax.spelling import DRAFT, TOOLS

_IDENTIFIER = re.compile(r"_*[A-Za-z][A-Za-z0-9_]*")
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_LONGEST = 112
"""Characters of an identifier: a file of a variable has the names of its graph and of itself."""
_DIGEST = 8
_OUTPUT = re.compile(r"_output_0(?=$|_[a-z]+$)")


def without_suffix(name: str) -> str:
    """A name without what torch's exporter says about every tensor: ``/conv/Conv_output_0``."""
    return _OUTPUT.sub("", name) if name.startswith("/") else name


def parts(name: str) -> tuple[str, ...]:
    """The words and numbers in a name of the source."""
    return tuple(filter(None, _SEPARATORS.split(without_suffix(name))))


def shows(source: str) -> bool:
    """Whether a name of a weight says more than that somebody has counted."""
    words = sum(not part.isdigit() for part in parts(source))
    return words > 1 and not source.startswith("onnx::")


def is_path(source: str) -> bool:
    """Whether a name says where in a network of modules a tensor is made."""
    return "/" in source or "." in source


class UniqueNames:
    """Gives each name once: the wanted one if it is free, else with the first free number.

    ``key`` maps a name to what must differ, such as ``str.lower`` for names of files.
    """

    def __init__(self, taken: Iterable[str] = (), key: Callable[[str], str] = str) -> None:
        """``taken`` are names to avoid."""
        self._key = key
        self._taken = set(map(key, taken))
        self._next: dict[str, int] = {}

    @property
    def taken(self) -> frozenset[str]:
        """What names must differ from."""
        return frozenset(self._taken)

    def avoid(self, *names: str) -> None:
        """Take names, whether they are free or not."""
        self._taken.update(map(self._key, names))

    def name(self, wanted: str) -> str:
        """A name that was not given before."""
        name, number = wanted, self._next.get(wanted, 2)
        while self._key(name) in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._next[wanted] = number
        self._taken.add(self._key(name))
        return name


class Namer(UniqueNames):
    """Gives each tensor its own identifier, as near to the wanted text as it can be."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """``taken`` are names to avoid besides those that the language reserves."""
        super().__init__((*DRAFT.reserved, *TOOLS.reserved, *taken))

    def name(self, wanted: str) -> str:
        """An identifier that was not given before."""
        return super().name(identifier(wanted))


def identifier(text: str) -> str:
    """A text with everything that no identifier may hold replaced; never empty nor too long."""
    plain = text
    if not _IDENTIFIER.fullmatch(text):
        plain = _OTHER.sub("_", text).strip("_")
        plain = f"x{plain}" if not plain or plain[0].isdigit() else plain
    if len(plain) <= _LONGEST:
        return plain
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: _LONGEST - _DIGEST - 1]}_{digest}"

"""Options that have no meaning for what a command was given: errors, not ignored."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from tvm_nnef.diagnostics import error

_NOTHING: Mapping[str, object] = {
    "dialect": "auto",
    "route": "mapped",
    "target": "native",
    "checked": False,
}
"""The defaults of options that are neither None nor an empty list."""


def refuse_given(
    options: argparse.Namespace,
    names: Iterable[str],
    subject: str,
    hint: str,
    file: str | None = None,
) -> None:
    """Raises NnefError for an option that is given and has no meaning for a subject."""
    for name in names:
        value = getattr(options, name, None)
        if value not in (None, [], _NOTHING.get(name)):
            option = f"--{name.replace('_', '-')}"
            raise error(f"{option} has no meaning for {subject}", hint=hint, file=file)

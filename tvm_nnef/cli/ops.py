"""``tvm-nnef ops [NAME]``: operators, their signatures, and how each is lowered."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence

from tvm_nnef.cli.arguments import load_options
from tvm_nnef.cli.terminal import is_coloured
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.formats.reading import load_model
from tvm_nnef.stdlib.catalogue import Entry, importable_entries, own_entries, standard_entries

_NARROWEST = 20
"""A column of signatures with fewer characters is not worth its line breaks."""


def run(options: argparse.Namespace) -> int:
    """Prints all operators, those of a module, or one in full.

    They are the standard ones, and by name those of the module ``xla``; with a model, those of its
    own modules.
    """
    if options.model is None:
        title, entries = "standard operator", standard_entries()
        if options.name is not None:
            entries += importable_entries()
    else:
        model = load_model(options.model, **load_options(options))
        title, entries = f"operator in {options.model}", own_entries(model.program)
    public = [entry for entry in entries if not entry.is_private]
    if options.name is None:
        _list(public)
        if not public:
            print(f"no {title}: its modules define none")
        return 0
    chosen = [each for each in entries if options.name == each.qualified_name]
    chosen = chosen or [each for each in public if options.name in (each.module, each.name)]
    if not chosen:
        raise error(f"there is no {title} '{options.name}'", hint=_near(options.name, public))
    if len(chosen) > 1 or options.name == chosen[0].module:
        _list(chosen)
    else:
        _describe(chosen[0])
    return 0


_KNOWN_AS = {
    "attention": ("linalg.matmul", "nn.softmax"),
    "layernorm": ("nn.mean_variance_norm",),
    "instancenorm": ("nn.mean_variance_norm",),
    "groupnorm": ("nn.mean_variance_norm",),
    "dense": ("nn.linear", "linalg.matmul"),
    "fullyconnected": ("nn.linear", "linalg.matmul"),
    "gemm": ("linalg.matmul", "nn.linear"),
    "einsum": ("linalg.matmul",),
    "permute": ("layout.transpose",),
    "view": ("layout.reshape",),
    "interpolate": ("image.resize", "image.linear_upsample"),
    "embedding": ("layout.gather",),
}
"""Standard operators by what other libraries call them, or what they are parts of."""


def _near(name: str, entries: Sequence[Entry]) -> str:
    """A hint: the operators that have the word in their names or comments, or a similar name."""
    word = name.rpartition(".")[2].lower().replace("_", "")
    related = [
        each.qualified_name
        for each in entries
        if word in each.name.replace("_", "") or word in each.comment.lower()
    ]
    names = {each.qualified_name for each in entries}
    related = [each for each in _KNOWN_AS.get(word, ()) if each in names] or related
    if related:
        return f"related operators: {', '.join(related[:8])}"
    known = [other for each in entries for other in (each.qualified_name, each.name)]
    # Stricter than elsewhere: an operator that is not there has no nearest name.
    return did_you_mean(name, known, 0.75) or "'tvm-nnef ops' lists all operators"


def _describe(entry: Entry) -> None:
    print(f"# {entry.qualified_name}: {entry.lowering}")
    for line in entry.comment.splitlines():
        print(f"# {line}".rstrip())
    print(entry.text)


def _list(entries: Sequence[Entry]) -> None:
    """In columns; on a terminal, long signatures go on below themselves."""
    width = max((len(entry.qualified_name) for entry in entries), default=0)
    bold, plain = ("\033[1m", "\033[0m") if is_coloured(sys.stdout) else ("", "")
    indent = width + 23
    rest = shutil.get_terminal_size().columns - indent if sys.stdout.isatty() else 0
    for entry in entries:
        lines = [entry.signature]
        if rest >= _NARROWEST:
            lines = textwrap.wrap(entry.signature, rest, break_on_hyphens=False)
        signature = f"\n{'':{indent}}".join(lines)
        print(f"{bold}{entry.qualified_name:<{width}}{plain}  {entry.lowering:<19}  {signature}")

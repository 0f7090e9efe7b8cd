"""``convert``: a model of another format, told by its content, handed to that format's converter.

And back: a SkriptND model written as ONNX.

Each converter is loaded when it is needed, and says what must be installed for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tvm_nnef.api import compose
from tvm_nnef.converters.loading import converter
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.model import Model, load_model, save_model
from tvm_nnef.storage.output import check_output, is_same_file
from tvm_nnef.storage.write import check_target

FORMATS = ("onnx",)
"""The formats that can be converted, each a package of that name in ``tvm_nnef.converters``."""

_ONNX_BEGINS = b"\x08"
"""The first field of a ModelProto is its version, as Protobuf writes it."""


def convert(
    source: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Model:
    """A model of another format as a SkriptND model, written to ``path`` where one is given.

    ``source`` is the path of a ``.onnx`` file, its bytes, or an ``onnx.ModelProto``. ``options``
    are those of the format's converter: for ONNX ``input_shapes={"x": (1, 3, 224, 224)}`` and
    ``dtypes`` where the source leaves them open, ``converters`` for operators of the user's own,
    and ``outline=False`` to leave blocks that repeat (:func:`tvm_nnef.converters.onnx.convert`).

    Where ``path`` ends in ``.onnx``, ``source`` is a SkriptND model (what :func:`load_model` takes)
    and is written as ONNX; ``options`` are then those of :func:`tvm_nnef.compose`.

    An existing folder at ``path`` is replaced if this program wrote it and its files were not
    changed since, or with ``overwrite``; then files that are not part of the model stay.

    Raises NnefError for what cannot be converted, all of it at once, and for a format that is not
    known or whose package is not installed, and for a path that cannot be written, before the work.
    """
    if path is not None:
        check_destination(source, path, overwrite=overwrite)
        if is_onnx(path):
            return _exported(source, path, options)
    name = format or _told(source)
    if name not in FORMATS:
        hint = did_you_mean(name, FORMATS) or f"formats are {', '.join(FORMATS)}"
        raise error(f"unknown format '{name}'", hint=hint)
    model: Model = converter(name).convert(source, **options)
    if path is not None:
        save_model(model, path, overwrite=overwrite)
    return model


def is_onnx(path: str | os.PathLike[str]) -> bool:
    """Whether a destination has the name of an ONNX file."""
    return os.fspath(path).endswith(".onnx")


def holds_onnx(path: str | os.PathLike[str]) -> bool:
    """Whether a model is a file in ONNX's format, by its suffix or its content."""
    return Path(path).suffix == ".onnx" or _begins(Path(path)) == _ONNX_BEGINS


def check_destination(source: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Check, before the work, that the converted model can be written to a path.

    Raises NnefError, also for a path that is the source itself.
    """
    if isinstance(source, (str, os.PathLike)) and is_same_file(path, source):
        hint = "give the converted model another name"
        raise error("cannot be written: it is the source", hint=hint, file=str(path))
    if is_onnx(path):
        check_output(path)
    else:
        check_target(path, overwrite=overwrite)


def _exported(source: Any, path: str | os.PathLike[str], options: dict[str, Any]) -> Model:
    loaded = load_model(source)
    writer = converter("onnx.export")
    writer.write(writer.exported(compose(loaded, **options), loaded.variables), path)
    return loaded


def _told(source: Any) -> str:
    """The format of a source, by its type or its beginning."""
    if type(source).__module__.startswith("onnx"):
        return "onnx"
    if isinstance(source, bytes):
        return "onnx"
    if not isinstance(source, (str, os.PathLike)):
        hint = f"formats are {', '.join(FORMATS)}"
        raise error(f"a {type(source).__name__} is no model of another format", hint=hint)
    path = Path(source)
    if holds_onnx(path):
        return "onnx"
    try:
        path.stat()
    except FileNotFoundError as cause:
        hint = "give the path of a .onnx file"
        raise error("no such file", hint=hint, file=str(source)) from cause
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        hint = "check the path and its permissions"
        raise error(f"cannot be read: {reason}", hint=hint, file=str(source)) from cause
    if path.is_dir() or path.suffix in (".sknd", ".tar", ".tgz"):
        hint = "a SkriptND model is written as ONNX to a path that ends in .onnx"
        raise error("this is no model of another format", hint=hint, file=str(source))
    hint = f"say which one it is: format='{FORMATS[0]}'"
    raise error("the format of the model is not known", hint=hint, file=str(source))


def _begins(path: Path) -> bytes:
    """The first byte of a regular file, nothing for anything else: a pipe would block."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(1)
    except (OSError, ValueError):
        return b""

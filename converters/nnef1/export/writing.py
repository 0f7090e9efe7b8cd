"""The files of an exported model, as a folder or an archive."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import numpy as np

from tvm_nnef.converters.nnef1.export.emitter import Array
from tvm_nnef.converters.nnef1.export.model import Exported
from tvm_nnef.converters.nnef1.reading import QUANTIZATION_FILE
from tvm_nnef.graph.machine_types import kind_of
from tvm_nnef.storage.names import NNEF1_FILE
from tvm_nnef.storage.tensor_file import write_tensor
from tvm_nnef.storage.write import write_container


def write(model: Exported, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model; existing files are replaced after all of it is written.

    Raises NnefError for a path that cannot be written, and for too large variables.
    """
    files: dict[str, bytes | Callable[[], bytes]] = {NNEF1_FILE: model.graph.encode()}
    if model.quantization:
        files[QUANTIZATION_FILE] = model.quantization.encode()
    for label, array in model.arrays.items():
        name = f"{label}.dat".replace("\\", "/")
        files[name] = partial(_tensor, array, name)
    write_container(path, files, overwrite=overwrite)


_REALS = ("float16", "float32", "float64")


def _tensor(array: Array, name: str) -> bytes:
    """Return the file of a variable; readers of NNEF 1 accept only reals of IEEE."""
    is_other = kind_of(array.dtype) == "real" and array.dtype.name not in _REALS
    return write_tensor(array.astype(np.float32) if is_other else array, name)

"""Importers with the arguments of TVM's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvm_nnef.api.building import from_nnef
from tvm_nnef.diagnostics import error
from tvm_nnef.support.argument_kinds import with_checked_arguments

if TYPE_CHECKING:
    import tvm


@with_checked_arguments
def from_onnx(
    model: Any,
    shape_dict: Mapping[str, Sequence[int | str]] | None = None,
    dtype_dict: Mapping[str, str] | str | None = None,
    *,
    keep_params_in_input: bool = False,
    **options: Any,
) -> tvm.IRModule:
    """Import an ONNX model as a TVM module with a Relax function ``main``.

    Parameters
    ----------
    model
        A path, bytes, or an ``onnx.ModelProto``.
    shape_dict, dtype_dict
        Shapes and dtypes of inputs by name, as in ``tvm.relax.frontend.onnx.from_onnx``, for inputs
        that the model does not fix. One dtype stands for all inputs of ``shape_dict``.
    keep_params_in_input
        Make weights parameters of ``main``.
    **options
        Those of :func:`from_nnef` and of the conversion, such as ``bounds``.

    Returns
    -------
    tvm.IRModule
        The module.

    Raises
    ------
    NnefError
        For errors in the model, and for everything that cannot be converted.

    Examples
    --------
    >>> import os, tempfile
    >>> import tvm_nnef
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "digits.onnx")
    ...     _ = tvm_nnef.convert("docs/examples/digits", file)
    ...     module = tvm_nnef.from_onnx(file)
    >>> len(module["main"].params)
    1
    """
    if isinstance(dtype_dict, str):
        dtype_dict = dict.fromkeys(shape_dict or (), dtype_dict)
    if shape_dict is not None:
        options["input_shapes"] = shape_dict
    if dtype_dict is not None:
        options["dtypes"] = dtype_dict
    if options.setdefault("format", "onnx") != "onnx":
        hint = "leave out 'format', or call from_nnef, which takes models of any format"
        raise error(f"from_onnx does not read the format {options['format']!r}", hint=hint)
    return from_nnef(model, keep_params_in_input=keep_params_in_input, **options)

"""Tensor files and images, as users read and write them one by one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tvm_nnef.api.building import compose
from tvm_nnef.diagnostics import InputError, did_you_mean, error, raised_as
from tvm_nnef.formats.reading import AnyModel, load_model
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.storage import image, tensor_file
from tvm_nnef.storage.output import write_file
from tvm_nnef.storage.regular import open_regular
from tvm_nnef.support.argument_kinds import with_checked_arguments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@with_checked_arguments
def read_tensor(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read the array of a ``.dat`` file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    numpy.ndarray
        The array, of the dtype that the file has.

    Raises
    ------
    NnefError
        If the file cannot be read or is damaged.

    Examples
    --------
    >>> import tvm_nnef
    >>> bias = tvm_nnef.read_tensor("docs/examples/digits/main.Digits.bias1.dat")
    >>> bias.shape, bias.dtype.name
    ((16,), 'float32')
    """
    try:
        with open_regular(path) as stream:
            data = stream.read()
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        hint = "check the path and its permissions"
        raise error(f"cannot be read: {reason}", hint=hint, file=str(path)) from None
    return tensor_file.read_tensor(data, str(path)).array


@with_checked_arguments
def write_tensor(path: str | os.PathLike[str], array: ArrayLike) -> None:
    """Write an array as a ``.dat`` file.

    Parameters
    ----------
    path
        The file.
    array
        Any array of dtype bool, int8 to int64, uint8 to uint64, float16 to float64, bfloat16, or of
        a dtype of ``ml_dtypes`` that ONNX has: int2, uint2, int4, uint4, float4 and float8.

    Raises
    ------
    NnefError
        If the array has another dtype, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tvm_nnef
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tvm_nnef.write_tensor(f"{folder}/main.Net.bias.dat", np.arange(3, dtype=np.float32))
    ...     tvm_nnef.read_tensor(f"{folder}/main.Net.bias.dat").tolist()
    [0.0, 1.0, 2.0]
    """
    import numpy as np

    write_file(path, tensor_file.write_tensor(np.asarray(array), str(path)))


@raised_as(InputError)
@with_checked_arguments
def load_image(
    path: str | os.PathLike[str], model: AnyModel, input: str | None = None, **options: Any
) -> NDArray[np.float32]:
    """Read an image as ``model.json`` of a model describes it.

    Parameters
    ----------
    path
        The image: a PNG, JPEG or another file that Pillow reads.
    model
        Any model, as for :func:`load_model`.
    input
        The input that the image is for; by default the only one that is an image.
    **options
        Those of :func:`compose`, such as ``attributes``, if the size of the image depends on them.

    Returns
    -------
    numpy.ndarray
        An array of float32 with the shape of the input.

    Raises
    ------
    InputError
        If the file is not an image, or the model does not describe one.

    Examples
    --------
    >>> import tvm_nnef
    >>> tvm_nnef.load_image("docs/examples/digits/digit-7.png", "docs/examples/digits").shape
    (1, 1, 8, 8)
    """
    loaded = load_model(model)
    images = loaded.metadata.inputs
    if input is None and len(images) == 1:
        input = next(iter(images))
    if input is None or input not in images:
        named = ", ".join(images) or "none"
        near = did_you_mean(input or "", images) or f"inputs that are images: {named}"
        asked = (
            "which input the image is for is not known"
            if input is None
            else (f"input '{input}' of the model is not declared to be an image")
        )
        raise error(asked, hint=f"{near} (model.json declares them)", file=loaded.path)
    graph = compose(loaded, **options)
    port = next(each for each in graph.inputs if each.name == input)
    operand = port.operand
    sizes = operand.shape if isinstance(operand, Tensor) else ()
    shape = tuple(size for size in sizes if isinstance(size, int))
    if not shape or len(shape) != len(sizes):
        hint = f"give it, as in input_shapes={{'{input}': (1, 3, 224, 224)}}"
        raise error(f"the shape of input '{input}' is not known", hint=hint, file=loaded.path)
    return image.load_image(path, shape, images[input])

"""Loading of an image file as the array that a model's input expects, as ``model.json`` describes
it.

Input: the path of an image and the input's shape. Output: a float32 array of that shape. Pillow is
imported when the first image is read. The caller decides which files are images.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.storage.metadata import ImageInput
from tvm_nnef.storage.regular import open_regular
from tvm_nnef.support.requirements import needed_for

if TYPE_CHECKING:
    from PIL.Image import Image

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def load_image(
    path: str | os.PathLike[str], shape: tuple[int, ...], image: ImageInput
) -> NDArray[np.float32]:
    """Load an image for an input of ``shape``, whose dimensions ``image.layout`` names.

    The image is turned upright, converted to as many channels as the input has (1 grey, 3 red
    green blue, 4 with opacity), resized, and mapped to ``(pixel - mean) * scale``. Raises
    :class:`NnefError` if Pillow is missing, the file is not an image, or the shape has another
    rank, a batch of more than one, or another number of channels.
    """
    file = str(path)
    sizes = _sizes(shape, image, file)
    pixels = _pixels(file, sizes)
    if image.invert:
        pixels = 255 - pixels
    channels = sizes.get("C", 1)
    mean, scale = (_per_channel(values, channels, file) for values in (image.mean, image.scale))
    values: NDArray[np.float32] = ((pixels - mean) * scale).astype(np.float32)
    order = ["HWC".index(axis) for axis in image.layout if axis != "N"]
    if "C" not in image.layout:
        values = values[:, :, 0]
    return np.ascontiguousarray(values.transpose(order)).reshape(shape)


def _sizes(shape: tuple[int, ...], image: ImageInput, file: str) -> dict[str, int]:
    if len(shape) != len(image.layout):
        raise error(
            f"the layout {image.layout} has {len(image.layout)} dimensions, "
            f"the input has shape {list(shape)}",
            hint="correct the layout of the input, in model.json or with --layout",
            file=file,
        )
    sizes = dict(zip(image.layout, shape, strict=True))
    if sizes.get("N", 1) != 1:
        raise error(
            f"one image makes a batch of 1, the input has shape {list(shape)}",
            hint="give the graph's batch attribute the value 1, or pass a '.npy' file",
            file=file,
        )
    if sizes.get("C", 1) not in _MODES or not all(shape):
        raise error(
            f"an image has 1, 3 or 4 channels and some pixels, the input has shape {list(shape)} "
            f"with layout {image.layout}",
            hint="correct the layout of the input, in model.json or with --layout",
            file=file,
        )
    return sizes


def _pixels(file: str, sizes: dict[str, int]) -> NDArray[np.float64]:
    """Return pixels from 0 to 255, shape ``(height, width, channels)``."""
    with needed_for("reading an image", file):
        from PIL import Image, ImageOps, UnidentifiedImageError
    size = (sizes["W"], sizes["H"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with open_regular(file) as stream, Image.open(stream) as opened:
                upright = _eight_bits(ImageOps.exif_transpose(opened))
        converted = upright.convert(_MODES[sizes.get("C", 1)])
        fitting = (
            converted
            if converted.size == size
            else converted.resize(size, Image.Resampling.BILINEAR)
        )
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as cause:
        raise _unreadable(f"it has too many pixels ({cause})", file) from cause
    except UnidentifiedImageError as cause:
        raise _unreadable("its beginning is that of no format that Pillow reads", file) from cause
    except (OSError, ValueError, SyntaxError) as cause:
        if "truncated" in str(cause).lower():
            hint = "copy or download the file again"
            message = "cannot be read as an image: it is cut off"
            raise error(message, hint=hint, file=file) from cause
        raise _unreadable(str(cause), file) from cause
    return np.asarray(fitting, np.float64).reshape(*size[::-1], -1)


def _eight_bits(image: Image) -> Image:
    """Return 16-bit grey as 8-bit grey, which Pillow's own conversion would clip."""
    if not image.mode.startswith("I"):
        return image.copy()
    from PIL import Image as images

    return images.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))


def _per_channel(values: tuple[float, ...], channels: int, file: str) -> NDArray[np.float64]:
    if len(values) not in (1, channels):
        raise error(
            f"the mean or the scale is of {len(values)} channels, the input has {channels}",
            hint="give one number for all channels, or one for each",
            file=file,
        )
    return np.array(values, np.float64)


def _unreadable(reason: str, file: str) -> NnefError:
    return error(
        f"cannot be read as an image: {reason}",
        hint="give a PNG, JPEG or another image that Pillow reads",
        file=file,
    )

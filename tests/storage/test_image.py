"""Images to input arrays: layout, scale, size, and what is not an image."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.storage.image import load_image
from tvm_nnef.storage.metadata import ImageInput

GREY = np.array([[0, 50, 100], [150, 200, 255]], np.uint8)
COLOUR = np.stack([GREY, GREY[::-1], 255 - GREY], axis=2)


def saved(pixels: NDArray[np.uint8] | NDArray[np.uint16], path: Path) -> Path:
    Image.fromarray(pixels).save(path)
    return path


EXPECTED: dict[str, tuple[NDArray[np.uint8], tuple[int, ...], ImageInput, NDArray[Any]]] = {
    # name: (image, shape of the input, description, values)
    "grey": (GREY, (2, 3), ImageInput("HW"), GREY.astype(float)),
    "batch": (GREY, (1, 2, 3), ImageInput("NHW"), GREY[None].astype(float)),
    "channels first": (
        COLOUR,
        (1, 3, 2, 3),
        ImageInput("NCHW"),
        COLOUR.transpose(2, 0, 1)[None].astype(float),
    ),
    "channels last": (COLOUR, (2, 3, 3), ImageInput("HWC"), COLOUR.astype(float)),
    "grey as colour": (GREY, (3, 2, 3), ImageInput("CHW"), np.stack([GREY] * 3).astype(float)),
    "scale and mean": (GREY, (2, 3), ImageInput("HW", (0.5,), (10.0,)), (GREY - 10.0) * 0.5),
    "scale and mean by channel": (
        COLOUR,
        (2, 3, 3),
        ImageInput("HWC", (1.0, 2.0, 4.0), (1.0, 2.0, 3.0)),
        (COLOUR - np.array([1.0, 2.0, 3.0])) * np.array([1.0, 2.0, 4.0]),
    ),
    "inverted": (GREY, (2, 3), ImageInput("HW", invert=True), 255.0 - GREY),
    "resized": (np.full((4, 9), 7, np.uint8), (2, 3), ImageInput("HW"), np.full((2, 3), 7.0)),
}


@pytest.mark.parametrize("case", EXPECTED)
def test_an_image_becomes_the_input(case: str, tmp_path: Path) -> None:
    pixels, shape, image, expected = EXPECTED[case]
    array = load_image(saved(pixels, tmp_path / "x.png"), shape, image)
    assert array.dtype == np.float32 and array.shape == shape
    np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_grey_of_16_bits_keeps_its_brightness(tmp_path: Path) -> None:
    path = saved(GREY.astype(np.uint16) * 257, tmp_path / "x.png")
    assert np.array_equal(load_image(path, (2, 3), ImageInput("HW")), GREY)


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[0x0112] = 3
    image.save(tmp_path / "x.png", exif=exif)
    turned = load_image(tmp_path / "x.png", (2, 3), ImageInput("HW"))
    assert np.array_equal(turned, GREY[::-1, ::-1])


def good(path: Path) -> Path:
    return saved(GREY, path)


def broken(data: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return write


def cut_off(path: Path) -> Path:
    saved(np.random.default_rng(0).integers(0, 255, (50, 50), np.uint8), path)
    path.write_bytes(path.read_bytes()[:500])
    return path


FAULTS: dict[str, tuple[Callable[[Path], Path], tuple[int, ...], ImageInput, str]] = {
    "missing": (lambda path: path, (2, 3), ImageInput("HW"), "cannot be read as an image"),
    "no image": (broken(b"hello"), (2, 3), ImageInput("HW"), "cannot be read as an image"),
    "cut off": (cut_off, (2, 3), ImageInput("HW"), "cannot be read as an image"),
    "damaged": (broken(b"\x89PNG\r\n\x1a\n" + bytes(40)), (2, 3), ImageInput("HW"), "cannot be"),
    "other rank": (good, (1, 2, 3), ImageInput("HW"), "has 2 dimensions"),
    "batch": (good, (4, 2, 3), ImageInput("NHW"), "a batch of 1"),
    "two channels": (good, (2, 2, 3), ImageInput("CHW"), "1, 3 or 4 channels"),
    "no pixels": (good, (0, 3), ImageInput("HW"), "some pixels"),
    "channels of the scale": (
        good,
        (2, 3),
        ImageInput("HW", (1.0, 2.0, 3.0)),
        "of 3 channels, the input has 1",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_have_a_location_and_a_hint(case: str, tmp_path: Path) -> None:
    make, shape, image, message = FAULTS[case]
    path = make(tmp_path / "x.png")
    with pytest.raises(NnefError) as caught:
        load_image(path, shape, image)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.path == str(path) and diagnostic.hint


def test_too_many_pixels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(np.zeros((20, 20), np.uint8), tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    with pytest.raises(NnefError, match="too many pixels"):
        load_image(path, (2, 3), ImageInput("HW"))


def test_a_missing_pillow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(NnefError, match="needs the package 'pillow'"):
        load_image(tmp_path / "x.png", (2, 3), ImageInput("HW"))

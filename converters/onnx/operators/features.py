"""Features of rows scaled, encoded, completed and selected, as ai.onnx.ml has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import decided
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.trees import DOMAIN
from tvm_nnef.converters.onnx.registry import Converter, operator
from tvm_nnef.converters.onnx.scores import check_lengths, floats, integers
from tvm_nnef.converters.onnx.texts import TEXTS


def _single(x: Tensor, builder: Builder) -> Tensor:
    """Reals as float64 and float32; integers as float32, in which their numbers are compared."""
    return x if x.dtype == "float64" else builder.cast(x, "float32")


def _row(values: Array, x: Tensor, name: str) -> Array:
    """Values of an attribute for the elements of x: one for all, or one for each feature."""
    if len(values) == 1:
        return values.reshape(())
    size = x.shape[-1] if x.rank else 1
    if isinstance(size, int) and len(values) != size:
        raise Invalid(f"'{name}' has {len(values)} values for {size} features")
    if x.rank > 2:
        raise Unconvertible(f"'{name}' has several values, and its input has {x.rank} dimensions",
                            "give rows of features")  # fmt: skip
    return values


@operator("Scaler", domain=DOMAIN)
def scaler(node: Node, builder: Builder) -> Tensor:
    """(x - offset) * scale, of all features or of each."""
    x = _single(node.input(0), builder)
    offset, scale = floats(node, "offset"), floats(node, "scale")
    if len(offset) and len(scale):
        check_lengths(scale=len(scale), offset=len(offset))
    for name, values in (("math.sub", offset), ("math.mul", scale)):
        if len(values):
            row = _row(values, x, name).astype(x.dtype)
            x = builder.binary(name, x, builder.constant(row))
    return builder.cast(x, "float32")


@operator("Normalizer", domain=DOMAIN)
def normalizer(node: Node, builder: Builder) -> Tensor:
    """Rows divided by their largest element, by the sum of magnitudes, or by their length."""
    x = builder.cast(node.input(0), "float32")
    if x.rank not in (1, 2):
        raise Invalid(f"its input has {x.rank} dimensions, not rows of features")
    axes, shape = [x.rank - 1], (*x.shape[:-1], 1)
    norm = node.text("norm", "MAX")
    match norm:
        case "MAX":
            size = builder.call("math.max_reduce", x, as_shape=shape, axes=axes)
        case "L1":
            magnitudes = builder.call("math.abs", x)
            size = builder.call("math.sum_reduce", magnitudes, as_shape=shape, axes=axes)
        case "L2":
            squares = builder.call("math.sqr", x)
            size = builder.call("math.sum_reduce", squares, as_shape=shape, axes=axes)
            size = builder.call("math.sqrt", size)
        case _:
            raise Invalid(f"'norm' is '{norm}'", "it may be: MAX, L1, L2")
    zero = builder.call("math.eq", size, 0.0, as_type="bool")
    divisor = builder.call("math.select", zero, 1.0, size, as_type=x.dtype)
    return builder.binary("math.div", x, divisor)


@operator("Binarizer", domain=DOMAIN)
def binarizer(node: Node, builder: Builder) -> Tensor:
    """1 where an element is above a threshold, else 0."""
    x = node.input(0)
    above = builder.call("math.gt", _single(x, builder), node.real("threshold"), as_type="bool")
    return builder.call("layout.cast", above, as_type=x.dtype, generics=(x.kind,))


@operator("Imputer", domain=DOMAIN)
def imputer(node: Node, builder: Builder) -> Tensor:
    """The elements, and others instead of those that equal one value."""
    x = node.input(0)
    is_real = x.kind == "real"
    name = "imputed_value_floats" if is_real else "imputed_value_int64s"
    values = (floats if is_real else integers)(node, name)
    if not len(values):
        raise Invalid(f"'{name}' must be given for an input of {x.kind}s")
    replaced = (
        node.real("replaced_value_float") if is_real else node.integer("replaced_value_int64")
    )
    if np.isnan(replaced):
        missing = builder.call("extra.is_nan", x, as_type="bool")
    else:
        missing = builder.binary("math.eq", x, replaced, "bool")
    row = builder.constant(_row(values, x, name).astype(x.dtype))
    return builder.select(missing, row, x)


@operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(node: Node, builder: Builder) -> Tensor:
    """Rows of several inputs one after the other, cut or filled up with zeros to given widths."""
    widths: Sequence[int | None] = node.integers("inputdimensions") or [None] * len(node.present)
    check_lengths(inputs=len(node.present), inputdimensions=len(widths))
    parts = []
    for given, width in zip(node.present, widths, strict=True):
        x = builder.cast(given, "float32")
        x = builder.reshape(x, (1, *x.shape)) if x.rank == 1 else x
        if x.rank != 2:
            raise Invalid(f"an input has {x.rank} dimensions, not rows of features")
        size = x.shape[1]
        if width is None or size == width:
            parts.append(x)
            continue
        if not isinstance(size, int):
            hint = f"declare that the input has {width} columns"
            raise Unconvertible("the number of columns of an input is dynamic", hint)
        if width < 0:
            raise Invalid(f"'inputdimensions' has {width}")
        parts.append(builder.slice(x, 1, 0, min(size, width)))
        if size < width:
            parts.append(builder.full(0.0, (x.shape[0], width - size), "float32"))
    return builder.concat(parts, 1)


@operator("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(node: Node, builder: Builder) -> Tensor:
    """For each element a row with 1 at its category."""
    if node.has("cats_strings") and node.attributes["cats_strings"]:
        raise Unconvertible(*TEXTS)
    categories = integers(node, "cats_int64s")
    if not len(categories):
        raise Invalid("it has no categories")
    if len(np.unique(categories)) < len(categories):
        raise Invalid("a category is given twice")
    x = node.input(0)
    whole = builder.unsqueeze(builder.cast(x, "int64"), [x.rank])
    equal = builder.binary("math.eq", whole, builder.constant(categories), "bool")
    found = builder.call("layout.cast", equal, as_type="float32", generics=("real",))
    return found if node.flag("zeros", True) else _known(x, equal, found, builder)


def _known(x: Tensor, equal: Tensor, found: Tensor, builder: Builder) -> Tensor:
    """``found``, if every element is in one of the categories: else an error at run time."""
    axes = [equal.rank - 1]
    known = builder.call("math.any_reduce", equal, as_shape=x.shape, axes=axes, squeeze=True)
    flat = builder.reshape(builder.call("math.not", known), (x.size,))
    positions = builder.call("layout.nonzero", flat, as_type="int64")
    positions = decided(positions, (1,), 1, x.size, builder)
    message = "an element is in none of the categories"
    return builder.call("extra.impossible", found, positions, message=message)


_KEYS = ("keys_tensor", "keys_int64s", "keys_floats", "keys_strings")
_VALUES = ("values_tensor", "values_int64s", "values_floats", "values_strings")


@operator("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(node: Node, builder: Builder) -> Tensor:
    """For each element the value of its key, or a default; texts as values by their indices."""
    x = node.input(0)
    keys, values = _list(node, _KEYS), _list(node, _VALUES)
    check_lengths(keys=len(keys), values=len(values))
    if keys.dtype.kind == "S":
        raise Unconvertible(*TEXTS)
    if str(keys.dtype) != x.dtype:
        raise Invalid(f"its keys are {keys.dtype}, and its input is {x.dtype}")
    last = _last(keys)
    if node.version < 4 and len(last) < len(keys):
        raise Invalid("a key is given twice")
    keys, values = keys[last], values[last]
    if values.dtype.kind == "S":
        texts = (*values.tolist(), node.text("default_string", "_Unused").encode())
        found = _looked_up(x, keys, np.arange(len(texts)), builder)
        found.texts = tuple(each.decode() for each in texts)
        return found
    default = np.array([_default(node, values)], values.dtype)
    return _looked_up(x, keys, np.concatenate([values, default]), builder)


def _looked_up(x: Tensor, keys: Array, values: Array, builder: Builder) -> Tensor:
    """The values of keys that elements equal; the last value is that of all other elements."""
    table = builder.constant(np.roll(values, 1))
    if not len(keys):
        return builder.full(builder.constant(values[-1]), x.shape, str(values.dtype))
    position = builder.call("ml.key_position", x, builder.constant(keys), as_type="int32")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        is_nan = builder.call("extra.is_nan", x, as_type="bool")
        at = builder.constant(int(np.flatnonzero(np.isnan(keys))[0]) + 1, "int32")
        position = builder.select(is_nan, at, position)
    return builder.call("layout.gather", table, position, as_shape=x.shape, axis=0)


def _last(keys: Array) -> Array:
    """The positions of different keys, of equal ones that of the last; NaN equals NaN."""
    _, first = np.unique(keys[::-1], return_index=True)
    return np.sort(len(keys) - 1 - first)


def _list(node: Node, names: Sequence[str]) -> Array:
    """The one list of several that is given; texts as bytes."""
    given = [name for name in names if np.size(node.attributes.get(name, ()))]
    if len(given) != 1:
        raise Invalid(f"one of {', '.join(names)} must be given")
    value = node.attributes[given[0]]
    kinds: Mapping[str, type] = {"int64s": np.int64, "floats": np.float32, "strings": np.bytes_}
    kind = kinds.get(given[0].rpartition("_")[2])
    return np.asarray(value).reshape(-1) if kind is None else np.array(value, kind)


def _default(node: Node, values: Array) -> object:
    """The value of elements that equal no key."""
    if "default_tensor" in node.attributes:
        found = np.asarray(node.attributes["default_tensor"]).reshape(-1)
        if found.dtype != values.dtype or len(found) != 1:
            raise Invalid(f"'default_tensor' is {found.dtype}, and values are {values.dtype}")
        return found[0]
    if values.dtype.kind == "f":
        return node.attributes.get("default_float", -0.0)
    return node.attributes.get("default_int64", -1)


@operator("CategoryMapper", domain=DOMAIN)
def category_mapper(node: Node, builder: Builder) -> Tensor:
    """The texts of integers, by their indices; the integers of texts are refused."""
    x, keys = node.input(0), integers(node, "cats_int64s")
    texts = node.texts("cats_strings") or []
    check_lengths(cats_int64s=len(keys), cats_strings=len(texts))
    last = _last(keys)
    if len(last) < len(keys):
        raise Invalid("an integer is given twice")
    found = _looked_up(x, keys, np.arange(len(keys) + 1), builder)
    found.texts = (*texts, node.text("default_string", "_Unused"))
    return found


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(node: Node, builder: Builder) -> Tensor:
    """Elements along the last dimension, at indices; a vector becomes a row."""
    x, index = node.input(0), node.input(1)
    rows = builder.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    if not rows.rank:
        raise Invalid("its input has no dimensions")
    flat = builder.reshape(index, (index.size,))
    shape = (*rows.shape[:-1], *flat.shape)
    return builder.call("extra.gather", rows, flat, as_shape=shape, axis=rows.rank - 1)


@operator("ZipMap", domain=DOMAIN)
def zip_map(node: Node, builder: Builder) -> Tensor:
    """The scores of classes, in the order of the labels, rather than a dictionary for each row."""
    x = node.input(0)
    labels = node.integers("classlabels_int64s") or node.texts("classlabels_strings") or []
    if x.rank and isinstance(x.shape[-1], int) and x.shape[-1] != len(labels):
        raise Invalid(f"it has {len(labels)} labels for {x.shape[-1]} columns")
    return x


def _refuse(node: Node, builder: Builder) -> Tensor:
    raise Unconvertible(*TEXTS)


REFUSED = (Converter("LabelEncoder", 1, partial(_refuse), DOMAIN),)

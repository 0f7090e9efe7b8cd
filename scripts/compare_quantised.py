"""Quantize networks, and compare them compiled with ONNX Runtime.

Each network (random weights, without its final softmax) is quantized by
``onnxruntime.quantization`` in three forms: ``qdq`` (static, per channel), ``qop`` (static,
QOperator) and ``dyn`` (dynamic). Each form is converted, built and run in its own process,
with a limit of memory and time.

Differences are given in steps of the output's quantization. A value in the middle of two codes is
rounded either way, and what follows amplifies it. The columns ``moved`` and ``optimized`` show by
how much ONNX Runtime differs from itself: for an input that is changed by at most one hundredth of
a code, and with its graph optimizations. A network agrees if it differs by no more than one step,
or than twice the larger of the two. Ends with status 1 if any does not.

With ``--images N``, the class of the largest output is compared instead, on random images: the
built program must agree with ONNX Runtime as often as ONNX Runtime agrees with itself in float32.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from bench_models import Entry, bert, light_models, shaped_models
from onnxruntime import quantization

FORMS = ("qdq", "qop", "dyn")
COLUMNS = ("convert s", "build s", "MiB", "steps", "mean", "moved", "optimized")
SHARES = ("ours", "float32", "classes")
"""Hits of ours and of float32 in ONNX Runtime against its integers; number of classes."""

OPSET = 13
"""Quantization per channel needs it."""


class _Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Two random inputs, from which the ranges of static quantization are taken."""

    def __init__(self, value: onnx.ValueInfoProto) -> None:
        random = np.random.default_rng(7)
        self._items = iter([{value.name: random_input(value, random)} for _ in range(2)])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self._items, None)


def networks() -> Mapping[str, Entry]:
    """Networks that people quantize: those of the onnx package, MobileNetV2, and a text encoder."""
    encoder = Entry(functools.partial(bert, width=384, layers=6))
    return {**light_models(), "mobilenetv2": shaped_models()["mobilenetv2"], "encoder": encoder}


def random_input(value: onnx.ValueInfoProto, random: np.random.Generator) -> np.ndarray:
    """Random numbers for an input, or small indices if it takes such."""
    shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
    if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
        return random.integers(0, 1000, shape)
    return random.random(shape, dtype=np.float32)


def floating(name: str) -> Any:
    """The network with random weights, up to the input of its final softmax."""
    model = networks()[name].make()
    if model.graph.node[-1].op_type == "Softmax":
        model.graph.output[0].name = model.graph.node.pop().input[0]
        model.graph.output[0].type.tensor_type.ClearField("shape")
    if model.opset_import[0].version < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
        model.ir_version = 8
    return model


def exported(name: str, folder: Path) -> Path:
    """The path of the network in float32; a file that is there is taken as it is."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        onnx.save(floating(name), path)
    return path


def quantized(source: Path, form: str, bits: int = 8) -> Path:
    """The path of a quantized network, with weights of so many bits.

    A file that is there is taken as it is.
    """
    target, reduced = source.with_suffix(f".{form}.onnx"), bits < 8
    if target.exists():
        return target
    if form == "dyn":
        quantization.quantize_dynamic(source, target, reduce_range=reduced)
        return target
    (value,) = onnx.load(source).graph.input
    formats = {"qdq": quantization.QuantFormat.QDQ, "qop": quantization.QuantFormat.QOperator}
    quantization.quantize_static(
        source, target, _Samples(value), quant_format=formats[form],
        per_channel=form == "qdq", activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8, reduce_range=reduced,
    )  # fmt: skip
    return target


def output_step(path: Path, output: np.ndarray) -> float:
    """The scale of the output, or that of 255 codes over its range if it is not quantized."""
    graph = onnx.load(path).graph
    scales = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    node = producers[graph.output[0].name]
    while node.op_type in ("Reshape", "Flatten", "Identity"):
        node = producers[node.input[0]]
    if node.op_type == "DequantizeLinear":
        return float(scales[node.input[1]])
    return float(np.ptp(output)) / 255


def judge(name: str, form: str, folder: Path) -> dict[str, float]:
    """Return the times of conversion and build and the difference in steps of the output."""
    import tvm_nnef

    path = quantized(exported(name, folder), form)
    plain, optimized = _session(path, optimize=False), _session(path, optimize=True)
    (port,) = onnx.load(path).graph.input
    x = random_input(port, np.random.default_rng(11))
    moved = x
    if x.dtype == np.float32:
        moved = x + np.random.default_rng(12).uniform(-0.01, 0.01, x.shape).astype(x.dtype) / 255
    (expected,) = plain.run(None, {port.name: x})
    step = output_step(path, expected)
    began = time.perf_counter()
    model = tvm_nnef.convert(path)
    converted = time.perf_counter()
    executable = tvm_nnef.build(model, progress=False, cache=False)
    built = time.perf_counter()

    def steps(output: np.ndarray) -> np.ndarray:
        return np.abs(output.astype(np.float64) - expected) / step

    found = steps(np.asarray(executable(x)[0]))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    own = [float(steps(session.run(None, {port.name: value})[0]).max())
           for session, value in ((plain, moved), (optimized, x))]  # fmt: skip
    numbers = (converted - began, built - converted, memory, found.max(), found.mean(), *own)
    return dict(zip(COLUMNS, map(float, numbers), strict=True))


def _session(path: Path, optimize: bool) -> Any:
    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def agrees(row: Mapping[str, float]) -> bool:
    """Whether the difference is one step, or explained by ONNX Runtime's own; 0.5 % more."""
    if "classes" in row:
        return row["ours"] >= row["float32"]
    return row["steps"] <= 1.005 * max(1.0, 2 * row["moved"], 2 * row["optimized"])


def agreement(name: str, form: str, folder: Path, count: int) -> dict[str, float]:
    """Shares of images of which two programs find the same class, and the number of classes."""
    import tvm_nnef

    source = exported(name, folder)
    # Without VNNI, ONNX Runtime saturates sums of products with weights of 8 bits.
    path = quantized(source, form, bits=7)
    real, integer = _session(source, optimize=True), _session(path, optimize=True)
    executable = tvm_nnef.build(tvm_nnef.convert(path), progress=False)
    (port,) = onnx.load(path).graph.input
    random = np.random.default_rng(13)
    found = []
    for _ in range(count):
        x = _image(port, random)
        outputs = [session.run(None, {port.name: x})[0] for session in (real, integer)]
        found.append([int(np.argmax(each)) for each in (*outputs, executable(x)[0])])
    floats, theirs, ours = np.transpose(found)
    shares = (np.mean(ours == theirs), np.mean(theirs == floats), len({*theirs}))
    return dict(zip(SHARES, map(float, shares), strict=True))


def _image(port: onnx.ValueInfoProto, random: np.random.Generator) -> np.ndarray:
    """A random image of few colours with some noise: classes vary more than those of noise."""
    x = random_input(port, random)
    *_, channels, height, width = x.shape
    blocks = random.random((1, channels, 4, 4), dtype=np.float32)
    large = blocks.repeat(-(-height // 4), 2).repeat(-(-width // 4), 3)[..., :height, :width]
    share = random.random(dtype=np.float32)
    return share * large + (1 - share) * x


def run_alone(name: str, form: str, options: argparse.Namespace) -> dict[str, float] | str:
    """The row of one form, computed in its own process, or what went wrong."""
    size = int(options.memory * 2**30)
    command = [sys.executable, __file__, "--one", name, form, "--folder", str(options.folder)]
    command += ["--images", str(options.images)]
    try:
        done = subprocess.run(
            command, timeout=options.seconds, capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {options.seconds:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    row: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def main() -> int:
    """Compare all networks that are asked for, and print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(networks())
    parser.add_argument("--models", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--forms", nargs="+", default=FORMS, choices=FORMS)
    parser.add_argument("--seconds", type=float, default=1200, help="time limit (default: 1200)")
    parser.add_argument("--memory", type=float, default=16, help="limit in GiB (default: 16)")
    parser.add_argument("--folder", type=Path, help="where quantized networks are kept")
    parser.add_argument("--images", type=int, default=0, help="compare classes of so many images")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one = (*options.one, options.folder)
        print(json.dumps(agreement(*one, options.images) if options.images else judge(*one)))
        return 0
    columns = SHARES if options.images else COLUMNS
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or Path(temporary)
        options.folder.mkdir(parents=True, exist_ok=True)
        print(f"{'':19}" + "".join(f"{each:>11}" for each in columns), flush=True)
        failed = 0
        for name in options.models:
            for form in options.forms:
                row = run_alone(name, form, options)
                good = not isinstance(row, str) and agrees(row)
                shown = row if isinstance(row, str) else "".join(
                    f"{row[each]:11.3g}" for each in columns)  # fmt: skip
                failed += not good
                mark = "" if good else "  DIFFERS" if not isinstance(row, str) else ""
                print(f"{name:15}{form:4}{shown}{mark}", flush=True)
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

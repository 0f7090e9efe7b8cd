"""Speed of compiled models beside ONNX Runtime: a table, and the geometric mean of the ratios.

The suite: the ``light_*`` models inside the ``onnx`` package with random weights in place of their
constants, a transformer block, and single operators. Each model is built and run in the same
process as ONNX Runtime, in turns, once with one thread and once with all; the best of several runs
counts, on one thread in processor time, so that other processes disturb little. A ratio above 1
says that we are faster. Models come in through TVM's own ONNX importer.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SEED = 0
PAUSE = 0.1
BLOCK = 5
ONE_THREAD = {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Row:
    """What was measured of one model: seconds, bytes, and the largest relative error."""

    name: str
    ours: float
    theirs: float
    error: float
    build: float
    memory: int

    def __str__(self) -> str:
        """A line of the table."""
        return (
            f"{self.name:24}{1e3 * self.theirs:10.3f}{1e3 * self.ours:10.3f}"
            f"{self.theirs / self.ours:8.2f}{self.error:10.1e}{self.build:8.1f}"
            f"{self.memory / 2**30:8.2f}"
        )


HEADER = f"{'':24}{'ORT ms':>10}{'ours ms':>10}{'ratio':>8}{'error':>10}{'build s':>8}{'GiB':>8}"


def light_models() -> dict[str, Callable[[], Any]]:
    """The networks inside the onnx package, weights made up."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {
        path.stem.removeprefix("light_"): lambda path=path: with_weights(onnx.load(path))
        for path in sorted(folder.glob("light_*.onnx"))
    }


def with_weights(model: Any) -> Any:
    """A model whose constants of one value are initializers with random ones."""
    from onnx import numpy_helper

    generator = np.random.default_rng(SEED)
    graph = model.graph
    known = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    kept, made = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in known:
            kept.append(node)
            continue
        shape = [int(extent) for extent in known[node.input[0]]]
        if len(shape) > 1:
            # Small in front of the softmax, which would else give one 1 and many 0.
            scale = 2 if len(shape) > 2 else 1e-4
            values = generator.standard_normal(shape) * np.sqrt(scale / np.prod(shape[1:]))
        else:
            values = generator.uniform(0.5, 1.5, shape)
        made.append(numpy_helper.from_array(values.astype("float32"), node.output[0]))
    used = {name for node in kept for name in node.input}
    initializers = [item for item in (*graph.initializer, *made) if item.name in used]
    names = {item.name for item in initializers}
    inputs = [item for item in graph.input if item.name in used and item.name not in names]
    for field, items in (("node", kept), ("initializer", initializers), ("input", inputs)):
        del getattr(graph, field)[:]
        getattr(graph, field).extend(items)
    model.ir_version = max(model.ir_version, 4)
    return model


def made_model(nodes: Any, inputs: dict[str, tuple[int, ...]], weights: dict[str, Any]) -> Any:
    """A model of nodes ``(operator, inputs, output, attributes)`` with the output ``y``."""
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    made = [
        helper.make_node(operator, names, [output], **attributes)
        for operator, names, output, attributes in nodes
    ]
    graph = helper.make_graph(
        made,
        "model",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return shape_inference.infer_shapes(model)


def normal(*shape: int) -> Any:
    """Small random numbers."""
    values = np.random.default_rng(SEED).standard_normal(shape) * 0.05
    return values.astype("float32")


def single_operators() -> dict[str, Callable[[], Any]]:
    """Models of one operator each, of sizes that networks have."""
    n = 384

    def one(operator: str, shapes: Any, weights: Any = None, **attributes: Any) -> Any:
        inputs = {f"x{number}": shape for number, shape in enumerate(shapes)}
        names = [*inputs, *(weights or {})]
        return made_model([(operator, names, "y", attributes)], inputs, weights or {})

    return {
        "conv 3x3": lambda: one(
            "Conv", [(1, 64, 56, 56)], {"w": normal(64, 64, 3, 3)}, pads=[1] * 4
        ),
        "conv 1x1": lambda: one("Conv", [(1, 256, 28, 28)], {"w": normal(256, 256, 1, 1)}),
        "depthwise 3x3": lambda: one(
            "Conv", [(1, 144, 56, 56)], {"w": normal(144, 1, 3, 3)}, pads=[1] * 4, group=144
        ),
        "matmul": lambda: one("MatMul", [(n, 768)], {"w": normal(768, 3072)}),
        "matmul of inputs": lambda: one("MatMul", [(n, 768), (768, 768)]),
        "gemv": lambda: one("MatMul", [(1, 2048)], {"w": normal(2048, 1000)}),
        "batched matmul": lambda: one("MatMul", [(12, n, n), (12, n, 64)]),
        "softmax": lambda: one("Softmax", [(12, n, n)], axis=-1),
        "layer norm": lambda: one(
            "LayerNormalization", [(1, n, 768)], {"s": normal(768), "b": normal(768)}
        ),
        "tanh": lambda: one("Tanh", [(1, n, 3072)]),
        "sigmoid": lambda: one("Sigmoid", [(1, n, 3072)]),
        "erf": lambda: one("Erf", [(1, n, 3072)]),
        "add": lambda: one("Add", [(1, n, 768), (1, n, 768)]),
        "transpose": lambda: one("Transpose", [(1, n, 12, 64)], perm=[0, 2, 1, 3]),
        "max pool": lambda: one(
            "MaxPool", [(1, 64, 112, 112)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
        ),
        "reduce mean": lambda: one("ReduceMean", [(1, n, 768)], axes=[-1]),
    }


def transformer(rows: int = 128, width: int = 768, heads: int = 12, layers: int = 2) -> Any:
    """Encoder layers of the shape of BERT-base."""
    depth = width // heads
    nodes: list[Any] = []
    weights: dict[str, Any] = {
        "half": np.float32(0.5), "one": np.float32(1), "root": np.float32(2**0.5),
        "scale": np.float32(depth**-0.5), "split": np.array([1, rows, heads, depth], "int64"),
        "join": np.array([1, rows, width], "int64"),
    }  # fmt: skip

    def dense(source: str, name: str, inputs: int, outputs: int) -> str:
        weights[f"{name}.w"], weights[f"{name}.b"] = normal(inputs, outputs), normal(outputs)
        nodes.append(("MatMul", [source, f"{name}.w"], f"{name}.p", {}))
        nodes.append(("Add", [f"{name}.p", f"{name}.b"], name, {}))
        return name

    def norm(source: str, name: str) -> str:
        weights[f"{name}.s"], weights[f"{name}.b"] = 1 + normal(width), normal(width)
        inputs = [source, f"{name}.s", f"{name}.b"]
        nodes.append(("LayerNormalization", inputs, name, {"axis": -1}))
        return name

    def split(source: str, name: str, order: list[int]) -> str:
        nodes.append(("Reshape", [source, "split"], f"{name}.r", {}))
        nodes.append(("Transpose", [f"{name}.r"], name, {"perm": order}))
        return name

    x = "x"
    for layer in range(layers):
        p = f"l{layer}."
        q = split(dense(x, f"{p}q", width, width), f"{p}qs", [0, 2, 1, 3])
        k = split(dense(x, f"{p}k", width, width), f"{p}ks", [0, 2, 3, 1])
        v = split(dense(x, f"{p}v", width, width), f"{p}vs", [0, 2, 1, 3])
        nodes += [
            ("MatMul", [q, k], f"{p}qk", {}),
            ("Mul", [f"{p}qk", "scale"], f"{p}scores", {}),
            ("Softmax", [f"{p}scores"], f"{p}soft", {"axis": -1}),
            ("MatMul", [f"{p}soft", v], f"{p}av", {}),
            ("Transpose", [f"{p}av"], f"{p}at", {"perm": [0, 2, 1, 3]}),
            ("Reshape", [f"{p}at", "join"], f"{p}a", {}),
        ]
        nodes.append(("Add", [x, dense(f"{p}a", f"{p}o", width, width)], f"{p}sum", {}))
        x = norm(f"{p}sum", f"{p}n1")
        hidden = dense(x, f"{p}h", width, 4 * width)
        nodes += [
            ("Div", [hidden, "root"], f"{p}g1", {}),
            ("Erf", [f"{p}g1"], f"{p}g2", {}),
            ("Add", [f"{p}g2", "one"], f"{p}g3", {}),
            ("Mul", [hidden, f"{p}g3"], f"{p}g4", {}),
            ("Mul", [f"{p}g4", "half"], f"{p}g", {}),
        ]
        nodes.append(("Add", [x, dense(f"{p}g", f"{p}d", 4 * width, width)], f"{p}sum2", {}))
        x = norm(f"{p}sum2", f"{p}n2")
    nodes.append(("Identity", [x], "y", {}))
    return made_model(nodes, {"x": (1, rows, width)}, weights)


def suite() -> dict[str, Callable[[], Any]]:
    """All models by name."""
    return {**light_models(), "bert-like": transformer, **single_operators()}


def sessions(model: Any, threads: int) -> tuple[Callable[[], Any], Callable[[], Any], float]:
    """What runs a model here, what runs it in ONNX Runtime, and the seconds that building took."""
    import onnxruntime
    from tvm.relax.frontend.onnx import from_onnx

    from tvm_nnef import tvm_compat
    from tvm_nnef.compilation.pipeline import compile_module

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    generator = np.random.default_rng(SEED)
    inputs = {
        item.name: generator.random(item.shape, dtype="float32") for item in session.get_inputs()
    }
    start = time.perf_counter()
    library = compile_module(from_onnx(model), "native")
    seconds = time.perf_counter() - start
    tvm_compat.use_all_cores()
    main = tvm_compat.virtual_machine(library)["main"]
    tensors = [tvm_compat.runtime_tensor(array) for array in inputs.values()]
    return lambda: main(*tensors), lambda: session.run(None, inputs), seconds


def measured(name: str, model: Any, threads: int, seconds: float) -> Row:
    """One line of the table; runs alternate for some seconds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    ours, theirs, build = sessions(model, threads)
    found, expected = ours(), theirs()[0]
    found = (found if hasattr(found, "numpy") else found[0]).numpy()
    error = float(np.abs(found - expected).max() / max(1e-30, np.abs(expected).max()))
    best = [float("inf")] * 2
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for place, call in enumerate((ours, theirs)):
            # The threads of both spin for a while after a run, and would take cores from the other.
            time.sleep(0 if threads == 1 else PAUSE)
            for _ in range(1 if threads == 1 else BLOCK):
                start = clock()
                call()
                best[place] = min(best[place], clock() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Row(name, best[0], best[1], error, build, memory)


def rows(names: list[str], threads: int, seconds: float) -> Iterator[Row]:
    """Each model in a process of its own, which bounds what one can do to the next."""
    environment = {**os.environ, **(ONE_THREAD if threads == 1 else {})}
    for name in names:
        command = [sys.executable, __file__, "--one", name, "--threads", str(threads)]
        command += ["--seconds", str(seconds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"{name:24} failed: {done.stderr.strip().splitlines()[-1][:200]}", flush=True)
            continue
        fields = done.stdout.strip().splitlines()[-1].split("\t")
        yield Row(fields[0], *map(float, fields[1:5]), int(fields[5]))


def main() -> int:
    """Measure the models that were asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of models; all without")
    parser.add_argument("--threads", type=int, help="1 or all; both without")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each model runs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    models = suite()
    if options.one:
        row = measured(options.one, models[options.one](), options.threads, options.seconds)
        values = (row.name, row.ours, row.theirs, row.error, row.build, row.memory)
        print("\t".join(map(str, values)))
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for threads in [options.threads] if options.threads else [1, cores or 1]:
        print(f"\n{threads} thread(s)\n{HEADER}")
        ratios = []
        for row in rows(options.models or list(models), threads, options.seconds):
            print(row, flush=True)
            ratios.append(row.theirs / row.ours)
        if ratios:
            print(f"{'geometric mean':44}{np.exp(np.mean(np.log(ratios))):8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

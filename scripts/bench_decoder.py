"""Measure a decoder with a cache, against other runtimes: tokens per second, and a prompt.

    python scripts/bench_decoder.py                    # 4 layers of the shape
    python scripts/bench_decoder.py --layers 24        # all of them
    python scripts/bench_decoder.py --bits 4           # with MatMulNBits, blocks of 32
    python scripts/bench_decoder.py --bits 4 --accuracy 4 --int8-activations

The model has the shape of a Llama of 0.5 B parameters with random weights, written as the model
builder of ONNX Runtime writes one: GroupQueryAttention with rotary embeddings inside, and
SkipSimplifiedLayerNormalization. Other fields of ``Shape`` make decoders like those of Phi, Qwen 3
and Gemma. Ours is built with the caches as state; ONNX Runtime gets one
buffer for past and present keys, by an I/O binding, so that it copies no cache either. OpenVINO, if
it is installed, gets the same file, and copies its caches. llama.cpp, if ``llama_cpp`` and ``gguf``
are installed, gets a file of the same sizes with weights in Q4_0, and has a cache in float16.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PAST, PRESENT = "past_key_values", "present"
DOMAIN = "com.microsoft"


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder; by default those of a Llama of 0.5 B parameters.

    ``bits`` are those of the weights of MatMulNBits, 0 for weights in float32 of MatMul, with an
    ``accuracy`` level. Queries, keys and values may be ``packed`` in one product, and rotated only
    in the first ``rotary`` elements of a head, if that is not 0. ``normed`` heads are those of
    Qwen 3; ``softcap``, a ``window`` and the activation of ``gelu`` are those of Gemma.
    """

    layers: int = 24
    width: int = 1024
    heads: int = 16
    groups: int = 8
    size: int = 64
    inner: int = 4096
    words: int = 32000
    longest: int = 4096
    bits: int = 0
    block: int = 32
    accuracy: int = 0
    packed: bool = False
    rotary: int = 0
    normed: bool = False
    softcap: float = 0.0
    window: int = -1
    gelu: bool = False

    @property
    def parameters(self) -> int:
        """The number of weights."""
        attention = self.width * self.size * (2 * self.heads + 2 * self.groups)
        return self.layers * (attention + 3 * self.width * self.inner) + 2 * self.words * self.width


@dataclass
class Writer:
    """The nodes and weights of a model so far."""

    shape: Shape
    random: Any = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, Any] = field(default_factory=dict)

    def add(
        self, operator: str, inputs: Sequence[str], *outputs: str, domain: str = "", **more: Any
    ) -> str:
        """Add a node; its first output."""
        import onnx

        node = onnx.helper.make_node(operator, inputs, outputs, outputs[0], domain=domain, **more)
        self.nodes.append(node)
        return outputs[0]

    def weight(self, name: str, *shape: int) -> str:
        """Add a random matrix that keeps the size of what it is multiplied by."""
        values = self.random.standard_normal(shape, np.float32)
        self.weights[name] = values / np.float32(np.sqrt(shape[0]))
        return name

    def scale(self, name: str) -> str:
        """Add the scale of a normalization."""
        self.weights[name] = self.random.uniform(0.5, 1.5, self.shape.width).astype(np.float32)
        return name

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """The product of rows with a new matrix."""
        weight, shape = self.weight(f"{name}.weight", rows, columns), self.shape
        if not shape.bits:
            return self.add("MatMul", [x, weight], name)
        from tvm_nnef.quantization.blocks import quantized

        array = np.ascontiguousarray(self.weights.pop(weight).T)
        blocks = quantized(array, 1, shape.bits, shape.block, "minmax")
        names = [f"{name}.codes", f"{name}.scales"]
        codes = blocks.packed.reshape(columns, rows // shape.block, -1)
        self.weights |= dict(zip(names, (codes, blocks.scales), strict=True))
        return self.add(
            "MatMulNBits", [x, *names], name, domain=DOMAIN, K=rows, N=columns, bits=shape.bits,
            block_size=shape.block, accuracy_level=shape.accuracy,
        )  # fmt: skip


def llama(shape: Shape, attention: str = "GroupQueryAttention") -> Any:
    """A decoder as an ONNX model: token ids and a mask, caches, the scores of the next token.

    ``attention`` is GroupQueryAttention, or Attention for the operator of opset 23, without rotary
    embeddings.
    """
    import onnx

    writer, number = Writer(shape), onnx.TensorProto
    x = writer.add(
        "Gather", [writer.weight("embed.weight", shape.words, shape.width), "ids"], "embedded"
    )
    writer.weights["embed.weight"] *= np.float32(np.sqrt(shape.words))
    total = _lengths(writer)
    caches, residual, skip = [], x, ""
    for layer in range(shape.layers):
        prefix = f"layers.{layer}"
        normed, residual = _normed(writer, residual, skip, f"{prefix}.input_norm")
        names = [f"{side}.{layer}.{kind}" for side in (PAST, PRESENT) for kind in ("key", "value")]
        caches.append(names)
        mixed = _attention(writer, normed, prefix, names, total, attention)
        normed, residual = _normed(writer, residual, mixed, f"{prefix}.norm")
        gate = writer.product(normed, f"{prefix}.gate", shape.width, shape.inner)
        up = writer.product(normed, f"{prefix}.up", shape.width, shape.inner)
        both = writer.add("Mul", [_activated(writer, gate, prefix), up], f"{prefix}.both")
        skip = writer.product(both, f"{prefix}.down", shape.inner, shape.width)
    last, _ = _normed(writer, residual, skip, "norm")
    writer.product(last, "logits", shape.width, shape.words)
    value = onnx.helper.make_tensor_value_info
    cache = [1, shape.groups, "past", shape.size]
    inputs = [value("ids", number.INT64, [1, "rows"]), value("mask", number.INT64, [1, "total"])]
    inputs += [value(name, number.FLOAT, cache) for names in caches for name in names[:2]]
    cache = [1, shape.groups, "total", shape.size]
    outputs = [value("logits", number.FLOAT, [1, "rows", shape.words])]
    outputs += [value(name, number.FLOAT, cache) for names in caches for name in names[2:]]
    graph = onnx.helper.make_graph(
        writer.nodes, "llama", inputs, outputs,
        [onnx.numpy_helper.from_array(array, name) for name, array in writer.weights.items()],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid(DOMAIN, 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _activated(writer: Writer, gate: str, prefix: str) -> str:
    """Return the values that a gate lets through."""
    if writer.shape.gelu:
        return writer.add("FastGelu", [gate], f"{prefix}.gelu", domain=DOMAIN)
    sigmoid = writer.add("Sigmoid", [gate], f"{prefix}.sigmoid")
    return writer.add("Mul", [gate, sigmoid], f"{prefix}.silu")


def _lengths(writer: Writer) -> list[str]:
    """The lengths that GroupQueryAttention takes, and its tables of angles."""
    size, longest = writer.shape.rotary or writer.shape.size, writer.shape.longest
    angles = np.arange(longest)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    writer.weights |= {
        "one": np.array([1], np.int64),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }
    whole = writer.add("ReduceSum", ["mask", "one"], "whole", keepdims=0)
    last = writer.add("Sub", [whole, "one"], "last")
    size_ = writer.add("Shape", ["mask"], "mask_size", start=1, end=2)
    return [writer.add("Cast", [name], f"{name}32", to=6) for name in (last, size_)]


def _normed(writer: Writer, x: str, skip: str, name: str) -> tuple[str, str]:
    """Rows, with what is added to them, normalized; and the sum."""
    scale = writer.scale(f"{name}.weight")
    if not skip:
        return writer.add(
            "SimplifiedLayerNormalization", [x, scale], name, axis=-1, epsilon=1e-5
        ), x
    total = f"{name}.sum"
    operator = "SkipSimplifiedLayerNormalization"
    writer.add(operator, [x, skip, scale], name, "", "", total, domain=DOMAIN, epsilon=1e-5)
    return name, total


def _attention(
    writer: Writer, x: str, prefix: str, names: Sequence[str], total: Sequence[str], operator: str
) -> str:
    """Attention with its projections."""
    shape, past, present = writer.shape, names[:2], names[2:]
    counts = (shape.heads, shape.groups, shape.groups)
    kinds = ("query", "key", "value")
    if shape.packed:
        whole = writer.product(x, f"{prefix}.qkv", shape.width, sum(counts) * shape.size)
        parts = [whole, "", ""]
    else:
        parts = [
            writer.product(x, f"{prefix}.{kind}", shape.width, count * shape.size)
            for kind, count in zip(kinds, counts, strict=True)
        ]
    if shape.normed:
        parts[:2] = [_normed_heads(writer, parts[at], counts[at]) for at in range(2)]
    mixed, groups = f"{prefix}.mixed", shape.groups
    if operator == "Attention":
        given = [*parts, "", *past]
        more: dict[str, Any] = {"q_num_heads": shape.heads, "is_causal": 1}
    else:
        given = [*parts, *past, *total, "cos", "sin"]
        more = {"num_heads": shape.heads, "do_rotary": 1, "domain": DOMAIN}
        more |= {"softcap": shape.softcap, "local_window_size": shape.window}
    writer.add(operator, given, mixed, *present, kv_num_heads=groups, **more)
    return writer.product(mixed, f"{prefix}.output", shape.heads * shape.size, shape.width)


def _normed_heads(writer: Writer, x: str, count: int) -> str:
    """Heads, each normalized."""
    size = writer.shape.size
    writer.weights[f"{x}.scale"] = writer.random.uniform(0.5, 1.5, size).astype(np.float32)
    for name, shape in (("apart", [-1, size]), ("joined", [1, -1, count * size])):
        writer.weights[f"{x}.{name}"] = np.array(shape, np.int64)
    apart = writer.add("Reshape", [x, f"{x}.apart"], f"{x}.heads")
    operator = "SimplifiedLayerNormalization"
    normed = writer.add(operator, [apart, f"{x}.scale"], f"{x}.normed", axis=-1, epsilon=1e-6)
    return writer.add("Reshape", [normed, f"{x}.joined"], f"{x}.norm")


class Ours:
    """The model built here, with its caches as state."""

    def __init__(self, path: Path, capacity: int, threads: int, *, rounded: bool) -> None:
        """Converts and builds the model."""
        import tvm_nnef

        model = tvm_nnef.convert(path, state={PAST: PRESENT}, bounds={"past": capacity})
        self.executable = tvm_nnef.build(
            model, progress=False, threads=threads, int8_activations=rounded
        )
        self._length = next(name for name in self.executable.state if name.endswith("length"))

    def step(self, length: int, rows: int) -> Callable[[], Any]:
        """A function that runs some rows after a past of a length."""
        self.executable.state[self._length] = np.array(length, np.int64)
        ids = np.ones((1, rows), np.int64)
        return self.executable.prepared(ids, np.ones((1, length + rows), np.int64))


class Theirs:
    """The model in ONNX Runtime, with one buffer for past and present keys, and for values."""

    def __init__(self, path: Path, shape: Shape, capacity: int, threads: int) -> None:
        """Opens a session."""
        import onnxruntime as runtime

        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        self._session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        zeros = np.zeros((1, shape.groups, capacity, shape.size), np.float32)
        kinds = [f"{layer}.{kind}" for layer in range(shape.layers) for kind in ("key", "value")]
        self._caches = {kind: runtime.OrtValue.ortvalue_from_numpy(zeros) for kind in kinds}

    def step(self, length: int, rows: int) -> Callable[[], Any]:
        """A function that runs some rows after a past of a length."""
        binding = self._session.io_binding()
        binding.bind_cpu_input("ids", np.ones((1, rows), np.int64))
        binding.bind_cpu_input("mask", np.ones((1, length + rows), np.int64))
        for kind, value in self._caches.items():
            binding.bind_ortvalue_input(f"{PAST}.{kind}", value)
            binding.bind_ortvalue_output(f"{PRESENT}.{kind}", value)
        binding.bind_output("logits")
        return lambda: self._session.run_with_iobinding(binding)


class OpenVino:
    """The model in OpenVINO, with past and present keys and values as inputs and outputs."""

    def __init__(self, path: Path, shape: Shape, threads: int) -> None:
        """Reads and compiles the model, with reals of 32 bits."""
        import openvino

        options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        self._compiled = openvino.Core().compile_model(str(path), "CPU", options)
        self._shape = shape

    def step(self, length: int, rows: int) -> Callable[[], Any]:
        """A function that runs some rows after a past of a length."""
        request, shape = self._compiled.create_infer_request(), self._shape
        past = np.zeros((1, shape.groups, length, shape.size), np.float32)
        given = {"ids": np.ones((1, rows), np.int64), "mask": np.ones((1, length + rows), np.int64)}
        given |= {
            name: past
            for each in self._compiled.inputs
            if (name := each.get_any_name()).startswith(PAST)
        }
        return lambda: request.infer(given, share_inputs=True, share_outputs=True)


class LlamaCpp:
    """A model of the same sizes in llama.cpp, with random weights in Q4_0."""

    def __init__(self, path: Path, shape: Shape, capacity: int, threads: int) -> None:
        """Writes and opens a file."""
        import llama_cpp

        write_gguf(path, shape)
        self._library, self._silent = llama_cpp, llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._silent, None)
        of_model = llama_cpp.llama_model_default_params()
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), of_model)
        of_context = llama_cpp.llama_context_default_params()
        of_context.n_ctx = of_context.n_batch = capacity
        of_context.n_threads = of_context.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(model, of_context)

    def step(self, length: int, rows: int) -> Callable[[], Any]:
        """A function that runs some rows after a past of a length."""
        library = self._library
        memory, batch = library.llama_get_memory(self._context), self._batch(length, rows)

        def run() -> None:
            library.llama_memory_seq_rm(memory, 0, length, -1)
            if library.llama_decode(self._context, batch):
                raise RuntimeError("llama.cpp computed nothing")

        if library.llama_memory_seq_pos_max(memory, 0) + 1 < length:
            self.step(0, length)()
        return run

    def _batch(self, first: int, count: int) -> Any:
        """Tokens at positions, each with its scores."""
        batch = self._library.llama_batch_init(count, 0, 1)
        batch.n_tokens = count
        for at in range(count):
            batch.token[at], batch.pos[at], batch.logits[at] = 1, first + at, 1
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
        return batch


def write_gguf(path: Path, shape: Shape) -> None:
    """Write a decoder with random weights for llama.cpp, products in Q4_0."""
    import gguf

    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(shape.words)
    writer.add_context_length(shape.longest)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.groups)
    writer.add_rope_dimension_count(shape.size)
    writer.add_layer_norm_rms_eps(1e-5)

    def product(name: str, rows: int, columns: int) -> None:
        blocks = np.empty((columns, rows // 32), [("scale", np.float16), ("codes", np.uint8, 16)])
        blocks["scale"] = 0.2 / np.sqrt(rows)
        blocks["codes"] = random.integers(0, 256, blocks["codes"].shape, np.uint8)
        codes = gguf.GGMLQuantizationType.Q4_0
        writer.add_tensor(f"{name}.weight", blocks.view(np.uint8), raw_dtype=codes)

    def scale(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(shape.width, np.float32))

    embedding = random.standard_normal((shape.words, shape.width), np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    queries, keys = shape.heads * shape.size, shape.groups * shape.size
    for layer in range(shape.layers):
        for name in ("attn_norm", "ffn_norm"):
            scale(f"blk.{layer}.{name}")
        product(f"blk.{layer}.attn_q", shape.width, queries)
        product(f"blk.{layer}.attn_k", shape.width, keys)
        product(f"blk.{layer}.attn_v", shape.width, keys)
        product(f"blk.{layer}.attn_output", queries, shape.width)
        product(f"blk.{layer}.ffn_gate", shape.width, shape.inner)
        product(f"blk.{layer}.ffn_up", shape.width, shape.inner)
        product(f"blk.{layer}.ffn_down", shape.inner, shape.width)
    scale("output_norm")
    product("output", shape.width, shape.words)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> int:
    """Measure, and print lines for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4, help="of the 24 of the shape (default: 4)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 512, 2000])
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument(
        "--capacity", type=int, default=2048, help="entries of a cache (default: 2048)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each line (default: 10)")
    parser.add_argument("--bits", type=int, default=0, help="of the weights (default: float32)")
    parser.add_argument("--accuracy", type=int, default=0, help="the level of MatMulNBits: 0 to 4")
    parser.add_argument("--int8-activations", action="store_true", help="for the model built here")
    parser.add_argument("--profile", action="store_true", help="print the slowest operations")
    options = parser.parse_args()
    shape = Shape(layers=options.layers, bits=options.bits, accuracy=options.accuracy)
    with tempfile.TemporaryDirectory() as folder:
        import onnx

        from tvm_nnef.measurement.interleaved import timed_in_turns

        path = Path(folder, "model.onnx")
        onnx.save(llama(shape), path, save_as_external_data=True, location="weights")
        start = time.perf_counter()
        ours = Ours(path, options.capacity, options.threads, rounded=options.int8_activations)
        built = time.perf_counter() - start
        others: dict[str, Any] = {
            "ONNX Runtime": Theirs(path, shape, options.capacity, options.threads)
        }
        if importlib.util.find_spec("openvino") is not None:
            others["OpenVINO"] = OpenVino(path, shape, options.threads)
        if all(map(importlib.util.find_spec, ("llama_cpp", "gguf"))) and shape.bits == 4:
            others["llama.cpp"] = LlamaCpp(
                Path(folder, "model.gguf"), shape, options.capacity, options.threads
            )
        print(
            f"{shape.layers} of 24 layers, {shape.parameters / 1e6:.0f} M weights in "
            f"{f'{shape.bits} bits' if shape.bits else 'float32'}, "
            f"{options.threads} threads, converted and built in {built:.0f} s", flush=True,
        )  # fmt: skip
        runs = [(f"a token after {length - 1}", length - 1, 1) for length in options.lengths]
        runs.append((f"a prompt of {options.prompt}", 0, options.prompt))
        for title, length, rows in runs:
            steps = [each.step(length, rows) for each in (ours, *others.values())]
            for step in steps:
                step()
            own, *times = timed_in_turns(steps, options.seconds, alone=options.threads == 1)
            print(f"{title}: {rows / own.median:.1f} tokens/s", flush=True)
            for name, other in zip(others, times, strict=True):
                print(
                    f"    {name} {rows / other.median:.1f}: {other.median / own.median:.2f}, "
                    f"{other.minimum / own.minimum:.2f} by the shortest times", flush=True,
                )  # fmt: skip
            if options.profile:
                ids, mask = np.ones((1, rows), np.int64), np.ones((1, length + rows), np.int64)
                print(ours.executable.profile(ids, mask))
        print(json.dumps({"layers": shape.layers, "threads": options.threads, "built": built}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

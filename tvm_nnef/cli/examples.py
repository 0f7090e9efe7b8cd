"""Examples of each command, which ``--help`` shows after its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "check": (
        "model",
        "model.onnx --shape x=1,3,224,224",
        "model --output-format github",
    ),
    "run": (
        "model",
        "model -i x.npy -o y.npy",
        "model.onnx -i image=photo.jpg --layout NCHW --labels classes.txt",
        "model.so -i inputs.npz -o outputs.npz",
    ),
    "compare": (
        "model",
        "model.onnx",
        "model --against model.onnx --rtol 1e-3",
    ),
    "show": (
        "model",
        "model.onnx --svg model.svg",
        "--diff old.onnx new.onnx",
    ),
    "build": (
        "model -o model.so",
        "model.onnx -o model.so --dtype real=float16",
        "model -o model.tar --target aarch64",
    ),
    "tune": ("model --trials 200 --database schedules",),
    "bench": (
        "model",
        "model.onnx --threads 1 4 --seconds 10",
        "model.so --json",
    ),
    "convert": (
        "model.onnx model.nnef2",
        "model.onnx model.nnef2 --shape x=N,3,224,224 --bound N=16",
        "model.nnef2 model.onnx --attr batch=2",
    ),
    "quantize": (
        "model small --data photos --method percentile --keep-float 2",
        "model small --weights int4 --block 32",
        "model.onnx small.tgz --weights int8 --block 128 --method mse",
    ),
    "extract": (
        "model --from conv1 --to pool2 -o part",
        "model.onnx --to /layer3/Add_output_0 -o part.tgz",
    ),
    "ops": (
        "nn",
        "nn.conv",
        "--model model",
    ),
    "format": (
        "model/main.sknd",
        "--check model",
    ),
}
"""The arguments of the command in each example."""


def epilog_of(command: str) -> str | None:
    """The examples of a command as text, if it has some."""
    lines = [f"  tvm-nnef {command} {each}" for each in EXAMPLES.get(command, ())]
    return "\n".join(["examples:", *lines]) if lines else None

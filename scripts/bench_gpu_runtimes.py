"""Cases on a GPU in one runtime: for each task, a line of JSON, the times as a line of JSON.

``bench_gpu.py`` starts this file. Times are those of calls back to back, of which the last is
waited for (``busy``), and of calls that are waited for one by one (``single``).
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from bench_gpu_cases import Spec, kernels, largest_error, made, suite
from bench_models import with_batch
from bench_runtimes import timed

Work = Callable[[], object]

_WARM = 0.15
"""Seconds of calls that are not timed."""

_TOGETHER = 0.005
"""Seconds of calls back to back that are timed as one."""


def times(call: Work, wait: Work, seconds: float) -> dict[str, float]:
    """The median times of a call that only starts work on the GPU."""

    def single() -> list[Any]:
        call()
        wait()
        return []

    alone = timed(single, time.perf_counter, _WARM, 0.0)
    count = max(1, int(_TOGETHER / np.median(alone)))

    def together() -> list[Any]:
        for _ in range(count):
            call()
        wait()
        return []

    busy = timed(together, time.perf_counter, seconds / 2, 0.0)
    alone = timed(single, time.perf_counter, seconds / 2, 0.0)
    return {"busy": float(np.median(busy)) / count, "single": float(np.median(alone))}


def arrays(specs: Sequence[Spec], dtypes: Sequence[str]) -> list[Any]:
    """The inputs, then the weights of a case."""
    pairs = enumerate(zip(specs, dtypes, strict=True))
    return [made(spec, number, dtype) for number, (spec, dtype) in pairs]


def ours(library: str, specs: Sequence[Spec], expected: str, seconds: float) -> dict[str, Any]:
    """The times of a library, and the error of its outputs."""
    from tvm_nnef.executable.loading import load

    start = time.perf_counter()
    executable = load(library)
    given = arrays(specs, [port.dtype for port in executable.inputs])  # type: ignore[union-attr]
    count = len(given) - int(executable.metadata["parameters"])
    if count < len(given):
        executable = executable.with_parameters(*given[count:])
    executable(*given[:count])
    loaded = time.perf_counter() - start
    # The first call captures CUDA graphs, this one replays them.
    outputs = [each for each in executable(*given[:count]) if isinstance(each, np.ndarray)]
    with np.load(expected) as stored:
        wanted = [stored[name] for name in sorted(stored.files)]
    arguments = executable._input_tensors(given[:count], {}, are_copied=False)
    program, run = executable._program, executable._started
    found = times(lambda: run(arguments, executable.threads), program.synchronize, seconds)
    return {**found, "error": largest_error(outputs, wanted), "start": loaded}


_NAME, _CLOCK, _MULTIPROCESSORS = 5, 6, 7
"""The numbers of attributes of a device of TVM."""


def device() -> dict[str, Any]:
    """The GPU: its name, architecture, multiprocessors, clock in Hz, and bandwidth of copies."""
    from tvm_nnef.tvm_support import runtime

    missing = runtime.missing_library("cuda")
    gpu = None if missing else runtime.present_device("cuda")
    if gpu is None:
        sys.exit(f"there is no GPU that TVM's runtime finds: {missing or 'no device'}")
    attribute = runtime.runtime_function("runtime.GetDeviceAttr")
    name, clock, count = (
        attribute(gpu.dlpack_device_type(), gpu.index, n) for n in (_NAME, _CLOCK, _MULTIPROCESSORS)
    )
    size = 1 << 30
    allocate = runtime.runtime_function("runtime.TVMTensorAllocWithScope")
    source = runtime.runtime_tensor(np.ones(size // 4, "float32"), gpu)
    target = allocate(source.shape, source.dtype, gpu, None)
    copy = runtime.runtime_function("runtime.TVMTensorCopyFromTo")
    sync = runtime.runtime_function("runtime.Device_StreamSync")
    found = times(lambda: copy(source, target), lambda: sync(gpu, 0), 0.5)
    return {
        "name": str(name),
        "arch": runtime.architecture_of(gpu),
        "multiprocessors": int(count),
        "clock": 1e3 * int(clock),
        "bandwidth": 2 * size / found["busy"],
    }


def pytorch(
    name: str, specs: Sequence[Spec], dtype: str, seconds: float, compiled: bool
) -> dict[str, Any]:
    """The times of the same case in PyTorch, with its own weights."""
    torch = _imported("torch", "PyTorch")
    if not torch.cuda.is_available():
        sys.exit("PyTorch here has no CUDA")
    # Ours computes in float32, too.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    with torch.inference_mode():
        given = [
            torch.from_numpy(made(spec, number, "int64" if "below" in spec else dtype)).cuda()
            for number, spec in enumerate(specs)
        ]
        if name in kernels():
            work = _TORCH_KERNELS[name]
            function = lambda *values: work(torch, *values)  # noqa: E731
        else:
            network, given = _TORCH_NETWORKS[name](torch).eval().cuda(), given[:1]
            function = network = network.to(getattr(torch, dtype))
            if given[0].ndim == 4:
                given = [given[0].to(memory_format=torch.channels_last)]
                function = network.to(memory_format=torch.channels_last)
        if compiled:
            function = torch.compile(function, mode="reduce-overhead")
        return times(lambda: function(*given), torch.cuda.synchronize, seconds)


def _imported(module: str, title: str) -> Any:
    if importlib.util.find_spec(module) is None:
        sys.exit(f"{title} is not installed here")
    return importlib.import_module(module)


def _bert(torch: Any) -> Any:
    package = _imported("transformers", "the package transformers")
    return package.BertModel(package.BertConfig(return_dict=False))


def _gpt2(torch: Any) -> Any:
    package = _imported("transformers", "the package transformers")
    return package.GPT2LMHeadModel(package.GPT2Config(use_cache=False))


def _vision(name: str) -> Callable[[Any], Any]:
    def make(torch: Any) -> Any:
        return getattr(_imported("torchvision", "torchvision").models, name)(weights=None)

    return make


_TORCH_NETWORKS: Mapping[str, Callable[[Any], Any]] = {
    "resnet50": _vision("resnet50"),
    "mobilenetv2": _vision("mobilenet_v2"),
    "bert": _bert,
    "gpt2": _gpt2,
}

_TORCH_KERNELS: Mapping[str, Callable[..., Any]] = {
    "matmul": lambda torch, x, w: x @ w,
    "matmul of one row": lambda torch, x, w: x @ w,
    "batched matmul": lambda torch, x, y: x @ y,
    "conv 3x3": lambda torch, x, w: torch.conv2d(x, w, padding=1),
    "conv 1x1": lambda torch, x, w: torch.conv2d(x, w),
    "depthwise 3x3": lambda torch, x, w: torch.conv2d(x, w, padding=1, groups=144),
    "attention": lambda torch, q, k, v, *_: torch.nn.functional.scaled_dot_product_attention(
        q, k, v
    ),
    "softmax": lambda torch, x: x.softmax(-1),
    "layer norm": lambda torch, x, s, b: torch.layer_norm(x, s.shape, s, b),
    "sum of rows": lambda torch, x: x.sum(1),
    "sum of columns": lambda torch, x: x.sum(0),
    "add": lambda torch, x, y: x + y,
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "transpose": lambda torch, x: x.transpose(1, 2).contiguous(),
    "max pool": lambda torch, x: torch.max_pool2d(x, 3, 2, 1),
}


def onnx_runtime(
    name: str, specs: Sequence[Spec], batch: int, dtype: str, seconds: float
) -> dict[str, Any]:
    """The times of the ONNX model in ONNX Runtime's provider for CUDA."""
    package = _imported("onnxruntime", "ONNX Runtime")
    if "CUDAExecutionProvider" not in package.get_available_providers():
        sys.exit("ONNX Runtime here has no provider for CUDA")
    _imported("onnx", "the package onnx")
    model = with_batch(suite()[name].make(), batch) if batch > 1 else suite()[name].make()
    if dtype == "float16":
        from onnxruntime.transformers.float16 import convert_float_to_float16

        model = convert_float_to_float16(model)
    session = package.InferenceSession(
        model.SerializeToString(), providers=["CUDAExecutionProvider"]
    )
    binding = session.io_binding()
    for number, port in enumerate(session.get_inputs()):
        real = dtype if "float" in port.type else "int64"
        array = made(specs[number], number, real)
        binding.bind_ortvalue_input(
            port.name, package.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        )
    for port in session.get_outputs():
        binding.bind_output(port.name, "cuda")
    call = lambda: session.run_with_iobinding(binding)  # noqa: E731
    return times(call, binding.synchronize_outputs, seconds)


_TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "device": device,
    "ours": ours,
    "pytorch": pytorch,
    "onnxruntime": onnx_runtime,
}


def main() -> int:
    """Do tasks until one fails: an error of CUDA stays until the process ends."""
    for line in sys.stdin:
        task = json.loads(line)
        try:
            print(json.dumps(_TASKS[task.pop("task")](**task)), flush=True)
        except (Exception, SystemExit) as problem:
            lines = str(problem).strip().splitlines() or [type(problem).__name__]
            print(json.dumps({"failed": lines[-1]}), flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

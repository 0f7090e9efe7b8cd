"""Feed damaged inputs to the readers of tvm_nnef; report whatever is not a diagnostic.

    python scripts/fuzz_inputs.py --kind text --seconds 60

Each input is made from a valid sample and a seed, and read by a forked worker with limits of time
and memory. A failure is an exception other than NnefError, a signal, or a limit exceeded; its input
is saved under the name of its seed. The exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import random
import re
import resource
import signal
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm_nnef.diagnostics import NnefError

ROOT = Path(__file__).resolve().parent.parent
MEMORY = 4 << 30
"""Bytes that a worker may map beyond what it has mapped when it starts."""

SECONDS = 20
"""Processor seconds for one input, and half of the wall-clock seconds."""

BATCH = 500
"""Inputs that one worker reads before the next one is forked."""


@dataclass(frozen=True)
class Kind:
    """A kind of input: valid samples, how to damage one, and what reads it.

    ``read`` gets the damaged bytes and an empty folder.
    """

    samples: Callable[[], list[bytes]]
    damage: Callable[[random.Random, bytes, list[bytes]], bytes]
    read: Callable[[bytes, Path], None]


# Damage.

_TOKEN = re.compile(rb"\w+|[^\w\s]|\s+")
_WORDS = (
    b"9223372036854775808 -1 0 1e999 [ ] ( ) { } .. ... ~ | ? ; , \" ' \\ # @ elif real int inf "
    b"null true \x1b \xff \xed\xa0\x80 \0 [0:1000000] ..(1000000) 1000000000000 {x}"
).split(b" ")


def damaged_bytes(chance: random.Random, data: bytes, samples: list[bytes]) -> bytes:
    """Bytes flipped, cut out, repeated, replaced, or those of two samples joined."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(found) + 1)
        end = min(len(found), start + chance.choice((1, 1, 4, 8, 64, 512)))
        match chance.randrange(6):
            case 0:
                found[start:end] = bytes(chance.randrange(256) for _ in range(end - start))
            case 1:
                found[start:end] = b""
            case 2:
                found[start:start] = found[start:end] * chance.choice((1, 2, 50))
            case 3:
                found[start:end] = chance.choice((b"\xff", b"\0", b"\x7f")) * (end - start)
            case 4:
                if end > start:
                    found[start] ^= 1 << chance.randrange(8)
            case _:
                found[start:] = chance.choice(samples)[start:]
    return bytes(found)


def damaged_words(chance: random.Random, data: bytes, samples: list[bytes]) -> bytes:
    """Words of a text replaced, removed, repeated or swapped for those of another sample."""
    if chance.random() < 0.1:
        return damaged_bytes(chance, data, samples)
    tokens = _TOKEN.findall(data)
    for _ in range(chance.randint(1, 4)):
        index = chance.randrange(len(tokens))
        match chance.randrange(5):
            case 0:
                tokens[index] = chance.choice(_WORDS)
            case 1:
                tokens[index] = b""
            case 2:
                tokens[index] *= chance.choice((2, 3, 300))
            case 3:
                tokens[index] = chance.choice(tokens)
            case _:
                tokens[index] = chance.choice(_TOKEN.findall(chance.choice(samples)) or [b""])
    return b"".join(tokens)


def damaged_archive(chance: random.Random, data: bytes, samples: list[bytes]) -> bytes:
    """The blocks of an archive damaged, and the archive compressed or not."""
    found = damaged_bytes(chance, data, samples) if chance.random() < 0.9 else data
    if chance.random() < 0.3:
        packed = gzip.compress(found, 1)
        found = damaged_bytes(chance, packed, samples) if chance.random() < 0.3 else packed
    return found


# Samples, small enough that damage often hits something that matters.


def _texts() -> list[bytes]:
    documents = sorted((ROOT / "tests/semantics/documents").rglob("*.txt"))
    parts = [part for path in documents for part in re.split(rb"(?m)^=+.*$", path.read_bytes())]
    examples = [path.read_bytes() for path in sorted((ROOT / "docs/examples").rglob("*.sknd"))]
    return [part for part in [*parts, *examples] if b"graph" in part]


def _tensors() -> list[bytes]:
    import numpy as np

    from tvm_nnef.storage.tensor_file import write_tensor

    dtypes = ("float32", "float16", "float64", "int32", "uint8", "bool")
    arrays = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in dtypes]
    return [write_tensor(array) for array in arrays]


def _json() -> list[bytes]:
    return [
        (ROOT / "docs/examples/digits/model.json").read_bytes(),
        b'{"labels": ["a", "b"], "inputs": {"x": {"layout": "NCHW", "scale": [1, 2, 3]}},'
        b' "machine_types": {"main.G.x": "float16"}, "source_names": {"main.G.x": "in:0"}}',
    ]


_GRAPH = (
    b"graph G { @input { x: real[2,3]; } @output { y: real[2,3]; } @variable { w: real[2,3]; }"
    b" @compose { y = x; } }\n"
)


def _archives() -> list[bytes]:
    found = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
            files = {"main.sknd": _GRAPH, "main.G.w.dat": _tensors()[0], "é" * 45: b"", "a/b": b""}
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        found.append(stream.getvalue())
    return found


def _onnx() -> list[bytes]:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    shape = numpy_helper.from_array(np.array([2, -1], np.int64), "s")
    chains = (
        [("MatMul", ["x", "w"], {}), ("Softmax", ["."], {"axis": 1}), ("Reshape", [".", "s"], {})],
        [("Expand", ["x", "s"], {}), ("Cast", ["."], {"to": 1}), ("Transpose", ["."], {})],
    )
    found = []
    for chain in chains:
        last, nodes = "", []
        for number, (name, inputs, attributes) in enumerate(chain):
            result = "y" if number == len(chain) - 1 else f"t{number}"
            operands = [last if each == "." else each for each in inputs]
            nodes.append(helper.make_node(name, operands, [result], **attributes))
            last = result
        graph = helper.make_graph(nodes, "g", [x], [y], [weight, shape])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        found.append(model.SerializeToString())
    return found


def _libraries() -> list[bytes]:
    from tvm_nnef import build

    text = "import math;\n" + _GRAPH.decode().replace("y = x", "y = math.sin(x)")
    text = text.replace("@variable { w: real[2,3]; }", "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.so"
        build(text, progress=False, cache=False).export(path)
        return [path.read_bytes()]


# Readers.


def _checked(model: str | Path) -> None:
    from tvm_nnef.api.checking import check

    for diagnostic in check(model):
        diagnostic.render()


def _read_text(data: bytes, folder: Path) -> None:
    (folder / "main.sknd").write_bytes(data)
    _checked(folder)


def _read_dat(data: bytes, folder: Path) -> None:
    from tvm_nnef.formats.reading import load_model

    (folder / "main.sknd").write_bytes(_GRAPH)
    (folder / "main.G.w.dat").write_bytes(data)
    _checked(folder)
    dict(load_model(folder).variables)


def _read_json(data: bytes, folder: Path) -> None:
    (folder / "main.sknd").write_bytes(_GRAPH)
    (folder / "model.json").write_bytes(data)
    _checked(folder)


def _read_archive(data: bytes, folder: Path) -> None:
    (folder / "model.tar").write_bytes(data)
    _checked(folder / "model.tar")


def _read_onnx(data: bytes, folder: Path) -> None:
    from tvm_nnef import convert

    (folder / "model.onnx").write_bytes(data)
    convert(folder / "model.onnx")


def _read_library(data: bytes, folder: Path) -> None:
    import numpy as np

    from tvm_nnef import load

    (folder / "model.so").write_bytes(data)
    load(folder / "model.so")(np.zeros((2, 3), np.float32))


KINDS: Mapping[str, Kind] = {
    "text": Kind(_texts, damaged_words, _read_text),
    "dat": Kind(_tensors, damaged_bytes, _read_dat),
    "json": Kind(_json, damaged_words, _read_json),
    "archive": Kind(_archives, damaged_archive, _read_archive),
    "onnx": Kind(_onnx, damaged_bytes, _read_onnx),
    "library": Kind(_libraries, damaged_bytes, _read_library),
}


def made(kind: Kind, samples: list[bytes], seed: int) -> bytes:
    """The input of a seed."""
    chance = random.Random(seed)
    return kind.damage(chance, chance.choice(samples), samples)


# Workers.


def _work(kind: Kind, samples: list[bytes], seeds: range, report: int) -> None:
    """Reads inputs in a forked process; writes the seed before each, and ends with a traceback."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    for seed in seeds:
        os.write(report, f"{seed}\n".encode())
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, hard))
        signal.alarm(2 * SECONDS)
        with tempfile.TemporaryDirectory() as folder:
            try:
                kind.read(made(kind, samples, seed), Path(folder))
            except NnefError:
                pass
            except BaseException:
                os.write(report, traceback.format_exc(limit=-4).encode("utf-8", "replace"))
                os._exit(1)
    os._exit(0)


def failures(kind: Kind, samples: list[bytes], seeds: range) -> Iterator[tuple[int, str]]:
    """The seeds whose input is not handled, and what happens instead."""
    while seeds:
        read, write = os.pipe()
        worker = os.fork()
        if not worker:
            os.close(read)
            _work(kind, samples, seeds, write)
        os.close(write)
        with os.fdopen(read, encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
        _, status = os.waitpid(worker, 0)
        if not status:
            return
        last = max(index for index, line in enumerate(lines) if line.isdigit())
        code = os.waitstatus_to_exitcode(status)
        reason = signal.Signals(-code).name if code < 0 else "\n".join(lines[last + 1 :])
        yield int(lines[last]), reason
        seeds = range(int(lines[last]) + 1, seeds.stop)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 if an input is not handled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all kinds")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: random)")
    parser.add_argument("--count", type=int, default=None, help="inputs of each kind")
    parser.add_argument("--seconds", type=float, default=60, help="for each kind, without --count")
    parser.add_argument("--output", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args(arguments)
    first = random.SystemRandom().randrange(1 << 40) if options.seed is None else options.seed
    failed = 0
    for name in options.kind or KINDS:
        kind, done = KINDS[name], 0
        samples = kind.samples()
        start = time.monotonic()
        while done < options.count if options.count else time.monotonic() - start < options.seconds:
            size = min(BATCH, options.count - done) if options.count else BATCH
            for seed, reason in failures(kind, samples, range(first + done, first + done + size)):
                failed += 1
                options.output.mkdir(parents=True, exist_ok=True)
                (options.output / f"{name}-{seed}").write_bytes(made(kind, samples, seed))
                print(f"{name} --seed {seed} --count 1: {reason}", flush=True)
            done += size
        print(f"{name}: {done} inputs from seed {first}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

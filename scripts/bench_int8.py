"""Time quantized networks compiled by tvm_nnef, against ONNX Runtime and OpenVINO.

Each network (random weights) is quantized by ``onnxruntime.quantization`` after its batch norms are
folded, in the forms of ``compare_quantised.py``: ``qdq`` and ``qop`` (static) and ``dyn``
(dynamic), and is also timed in float32. Weights have 7 bits, unless ``--bits 8`` is given: on CPUs
without VNNI other runtimes saturate sums of products of 8 bits, and so compute something else.

Every runtime is alone in its process, and the table is that of ``bench.py``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench import Row, header, measured_one_by_one, summary, thread_count
from bench_runtimes import ONNX_RUNTIME, OPENVINO, installed
from compare_quantised import FORMS, exported, networks, quantized
from onnxruntime.quantization.shape_inference import quant_pre_process

FLOAT = "float"


def forms_of(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """The files of the forms of a network."""
    source = folder / f"{name}.folded.onnx"
    if not source.exists():
        quant_pre_process(exported(name, folder), source, skip_symbolic_shape=True)
    return {
        f"{name} {form}": source if form == FLOAT else quantized(source, form, options.bits)
        for form in options.forms
    }


def main() -> int:
    """Print a table, and the geometric means of the quantized forms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names, forms = sorted(networks()), (FLOAT, *FORMS)
    parser.add_argument("models", nargs="*", default=names, metavar="NAME")
    parser.add_argument("--forms", nargs="+", default=forms, choices=forms)
    parser.add_argument("--bits", type=int, default=7, choices=(7, 8), help="bits of weights")
    parser.add_argument("--threads", type=thread_count, nargs="+", default=[1])
    runtimes = [each for each in (ONNX_RUNTIME, OPENVINO) if installed(each)]
    beside = "other runtimes (OpenVINO has not all operators of qop and dyn)"
    parser.add_argument("--beside", nargs="+", choices=runtimes, default=runtimes, help=beside)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each runtime and model")
    parser.add_argument("--dynamic", action="store_true", help="make the batch dynamic")
    parser.add_argument("--json", help="a file to write what was measured to")
    parser.add_argument("--folder", type=Path, help="where networks and libraries are kept")
    parser.add_argument("--prepare", action="store_true", help="build into --folder, time nothing")
    options = parser.parse_args()
    if options.prepare:
        options.threads = []
    if unknown := sorted({*options.models}.difference(names)):
        parser.error(f"unknown networks {', '.join(unknown)}; there are {', '.join(names)}")
    others = options.beside
    print(header(options.threads, others))
    with tempfile.TemporaryDirectory() as temporary:
        # What is kept is built once: a second run measures at once.
        folder = options.folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for name in options.models:
            files |= forms_of(name, options, folder)
        found, interrupted = measured_one_by_one(files, others, options)
    whole = [row for row in found if not row.name.endswith(FLOAT)]
    print(*summary(whole, options.threads, others), sep="\n")
    return 130 if interrupted else int(not all(isinstance(row, Row) for row in found))


if __name__ == "__main__":
    sys.exit(main())

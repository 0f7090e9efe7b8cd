"""Recognition of files and objects that are often mistaken for models.

Input: a candidate. Output: its kind and a next step. The content decides if it can.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tvm_nnef.converters.common.detection import Candidate
from tvm_nnef.storage.names import MAIN_FILE

_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_COMPRESSED = (b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ZIP = b"PK\3\4"
_PICKLE = re.compile(rb"\x80[\2-\5]")
_WEB = re.compile(rb"(?is)\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b")
_JSON = re.compile(rb"\s*(\{\s*[\"}]|\[\s*[\"{])")
_XML = re.compile(rb"\s*<\?xml\b")
_GRAPH_DEF = re.compile(rb"\x12.(Placeholder|Const|NoOp|VarHandleOp)", re.DOTALL)
_DARKNET = re.compile(rb"(\s*#.*)*\s*\[net(work)?\]\s*$", re.MULTILINE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)

_TORCH = "load it in Python, and give the module to tvm_nnef.build: see docs/torch.md"
_TENSORFLOW = "convert it to ONNX first, for example with tf2onnx"
_ORIGIN = "give the model that it was converted from"
_MESSAGE = "a download may be a message instead of the file: read it; a model is another file"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind that is not a model: its name with an article, the next step, and its test.

    A file with one of the ``suffixes`` that is nothing known is a damaged one.
    """

    name: str
    hint: str
    matches: Callable[[Candidate], bool]
    suffixes: tuple[str, ...] = ()


def other_kind(candidate: Candidate) -> tuple[str, str] | None:
    """Return the kind of a candidate that is not a model, and a next step.

    It is None if it is unknown.
    """
    kind = next((each for each in _KINDS if each.matches(candidate)), None)
    return None if kind is None else (kind.name, kind.hint)


def damaged_kind(candidate: Candidate) -> str | None:
    """Return the kind that the suffix of a file names, whose content is nothing known."""
    suffix = candidate.path.suffix.lower()
    return next((each.name for each in _KINDS if suffix in each.suffixes), None)


def missing_kind(path: str) -> tuple[str, str] | None:
    """Return the kind of a path that names no file (an address, or standard input), and a next
    step.
    """
    if _ADDRESS.match(path):
        return "an address", "addresses are not read: download the file, and give its path"
    if path == "-":
        return "standard input", "standard input is not read: write it to a file first"
    return None


def _begins(*starts: bytes) -> Callable[[Candidate], bool]:
    return lambda candidate: candidate.head.startswith(starts)


def _named(*suffixes: str) -> Callable[[Candidate], bool]:
    return lambda candidate: candidate.path.suffix.lower() in suffixes


def _matching(pattern: re.Pattern[bytes]) -> Callable[[Candidate], bool]:
    return lambda candidate: pattern.match(candidate.head) is not None


def _is_safetensors(candidate: Candidate) -> bool:
    """Whether it begins with the length of a header, which is JSON."""
    head = candidate.head
    return head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32


def _is_zip_of_torch(candidate: Candidate) -> bool:
    """Whether a zip archive has a name or a file that PyTorch gives, or fields as it aligns files.

    The extra fields of a file's header, 30 bytes and the name, begin with ``FB`` then.
    """
    head = candidate.head
    fields = head[30 + int.from_bytes(head[26:28], "little") :]
    return head.startswith(_ZIP) and (
        _named(".pt", ".pth", ".pt2", ".ptl", ".bin", ".ckpt")(candidate)
        or b"/data.pkl" in head
        or b"/byteorder" in head
        or fields.startswith(b"FB")
    )


def _is_graph_def(candidate: Candidate) -> bool:
    return candidate.text is None and _GRAPH_DEF.search(candidate.head[:4096]) is not None


def _is_part(candidate: Candidate) -> bool:
    """Whether it is a file of a model folder that is not its main module."""
    path = candidate.path
    is_part = path.name == "model.json" or path.suffix == ".dat"
    return is_part and (path.parent / MAIN_FILE).is_file()


_HUGGING_FACE = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
"""Files of weights, one of which is beside a configuration."""

_KINDS = (
    _Kind("a Git LFS pointer, not the file itself", "fetch the content with 'git lfs pull'",
          _begins(b"version https://git-lfs.github.com/spec/")),
    _Kind("an HTML page", "the download gave a page instead of the file: download it again",
          _matching(_WEB)),
    _Kind("a text in UTF-16", "save it in the encoding UTF-8", _begins(*_UTF16)),
    _Kind("a part of a model folder", "give the folder that it is in", _is_part),
    _Kind("a TensorFlow Lite model", _TENSORFLOW, lambda each: each.head[4:8] == b"TFL3",
          (".tflite", ".lite")),
    _Kind("an HDF5 file, as Keras writes it",
          "export the model to ONNX in Keras: model.export('model.onnx', format='onnx')",
          _begins(b"\x89HDF\r\n\x1a\n"), (".h5", ".hdf5")),
    _Kind("a TensorFlow model", _TENSORFLOW,
          lambda each: each.has("saved_model.pb") or _is_graph_def(each)),
    _Kind("a file of weights (safetensors), without a graph", _TORCH, _is_safetensors,
          (".safetensors",)),
    _Kind("a GGUF file, weights for llama.cpp",
          "export the model to ONNX, or give the PyTorch module",
          _begins(b"GGUF"), (".gguf",)),
    _Kind("a PyTorch file", _TORCH, _is_zip_of_torch, (".pt", ".pth", ".pt2", ".ptl")),
    _Kind("a Keras model", "export it to ONNX in Keras: model.export('model.onnx', format='onnx')",
          lambda each: each.head.startswith(_ZIP) and _named(".keras")(each), (".keras",)),
    _Kind("a Python pickle, as older versions of PyTorch write it", _TORCH, _matching(_PICKLE),
          (".pkl", ".pickle")),
    _Kind("a Hugging Face model: weights without a graph",
          "export it to ONNX (optimum-cli export onnx), or load it in Python: see docs/torch.md",
          lambda each: each.has("config.json") and any(map(each.has, _HUGGING_FACE))),
    _Kind("a Core ML model", _ORIGIN,
          lambda each: _named(".mlmodel")(each)
          or (each.has("Manifest.json") and _named(".mlpackage")(each))),
    _Kind("a model in ONNX Runtime's own format", "give the .onnx file that it was made from",
          lambda each: each.head[4:8] == b"ORTM", (".ort",)),
    _Kind("an engine of TensorRT", _ORIGIN, _begins(b"ftrt", b"ptrt")),
    _Kind("an ncnn model", _ORIGIN, _begins(b"7767517\n")),
    _Kind("a Caffe model", _ORIGIN, _named(".caffemodel", ".prototxt")),
    _Kind("an OpenVINO model", _ORIGIN,
          lambda each: each.text is not None and b"<net " in each.head[:512]),
    _Kind("a Darknet model", "convert it to ONNX first",
          lambda each: _named(".weights")(each) or _matching(_DARKNET)(each)),
    _Kind("a file of weights in MessagePack, as Flax writes it, without a graph",
          "export the function of JAX: see docs/stablehlo.md",
          _named(".msgpack")),
    _Kind("a program in Python", "give its module or function to tvm_nnef.build: see docs/torch.md",
          lambda each: each.is_python),
    _Kind("an array of NumPy", "it can be an input: -i FILE", _begins(b"\x93NUMPY"), (".npy",)),
    _Kind("an archive of NumPy arrays", "it can have the inputs: -i FILE",
          lambda each: each.head.startswith(_ZIP) and _named(".npz")(each), (".npz",)),
    _Kind("a picture", "it can be an input: -i FILE",
          lambda each: each.head.startswith(_PICTURES) or each.head[8:12] == b"WEBP"),
    _Kind("a PDF document", "give the file of the model", _begins(b"%PDF-")),
    _Kind("a compressed file", "unpack it, and give what is in it", _begins(*_COMPRESSED),
          (".7z", ".bz2", ".gz", ".rar", ".tar", ".tgz", ".xz", ".zst")),
    _Kind("a text in JSON", _MESSAGE, _matching(_JSON)),
    _Kind("a text in XML", _MESSAGE, _matching(_XML)),
)  # fmt: skip

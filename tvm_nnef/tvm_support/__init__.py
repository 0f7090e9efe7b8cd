"""Everything that changes from one TVM release to the next: API, code generation, threads.

Importing it imports the package ``tvm_ffi`` alone (see ``runtime.py``). Raises NnefError if TVM is
not installed, or TVM FFI is of another version than those that were tested.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.support.requirements import installing, needed_for


@contextmanager
def _without_folder_of_torch() -> Iterator[None]:
    """Yield while the import system finds no folder or file ``torch`` of the user.

    TVM takes any module ``torch`` for PyTorch.
    """
    spec = None if "torch" in sys.modules else find_spec("torch")
    folders = () if spec is None else spec.submodule_search_locations or ()
    if spec is None or any(Path(folder, "version.py").is_file() for folder in folders):
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # Raises ImportError if imported.
    try:
        yield
    finally:
        del sys.modules["torch"]


BUNDLED = Path(__file__).with_name("bundled_tvm")
"""TVM's runtime in the wheel of ``scripts/build_runtime.py``, which needs no package ``tvm``."""

with _without_folder_of_torch(), needed_for("compiling or running a compiled model"):
    # A file ``tvm.py`` of the user is not a package.
    if not getattr(find_spec("tvm"), "submodule_search_locations", None) and not BUNDLED.is_dir():
        raise ModuleNotFoundError("TVM is not installed", name="tvm")
    import tvm_ffi


def wrong_version(found: str) -> NnefError | None:
    """Return the error for a version of TVM FFI; None for one of those that were tested.

    0.1.13 lacks functions that TVM calls; 0.1.15 ends the process in ``tvm.ir.save_json``, which
    MetaSchedule calls. What a later one does is not known.
    """
    release = tuple(int(each) for each in re.findall(r"\d+", found)[:3])
    if (0, 1, 14) <= release < (0, 1, 15):
        return None
    hint = f"{installing('', 'apache-tvm-ffi')}, in an environment of this package alone if another"
    message = f"this package was not tested with 'apache-tvm-ffi' {found}, or fails with it"
    return error(message, hint=f"{hint} package needs that version")


if (_wrong := wrong_version(str(tvm_ffi.__version__))) is not None:
    raise _wrong

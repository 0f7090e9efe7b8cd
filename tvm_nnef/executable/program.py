"""A compiled library on its device: the virtual machine, the weights, and the calls of functions.

Input: what was built or loaded, and tensors of TVM. Output: tensors of TVM.
Does not know of arrays, names of inputs, or state (``runtime.py``).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tvm_nnef.diagnostics import error
from tvm_nnef.executable import devices
from tvm_nnef.executable.call_errors import missing_device, run_error
from tvm_nnef.executable.library_file import CompiledFiles
from tvm_nnef.executable.metadata import mismatch, read_metadata
from tvm_nnef.tvm_support import device_errors, runtime
from tvm_nnef.tvm_support.function_attributes import METADATA
from tvm_nnef.tvm_support.runtime import Array
from tvm_nnef.tvm_support.threads import use_threads


class Program:
    """A compiled library and a virtual machine for it.

    A machine keeps the frames of the calls that it is in, so calls take turns: those of a
    :meth:`clone`, which has its own machine, need not wait.

    Attributes
    ----------
    files : CompiledFiles
        The code, the text of the metadata, and the bytes of the parameter file if it has one.
    metadata : Mapping
        The metadata.
    kind : str
        The kind of the device, such as ``cpu`` or ``cuda``.
    device
        The device; None if this machine has none of the kind.
    turn : threading.RLock
        Held during a call.
    """

    def __init__(self, library: Any, metadata: str | None, weights: Array | None) -> None:
        """Takes a library; its function for CPUs gives the metadata where they are not given."""
        self.turn = threading.RLock()
        self.kind = "cpu"  # Until the metadata are read.
        self.files = CompiledFiles(library, metadata or "", weights)
        if metadata is None:
            self.files = CompiledFiles(library, str(self.machine[METADATA]()), weights)
        self.metadata = read_metadata(self.files.metadata)
        self.kind = str(self.metadata["target"]["device"])
        self.device = None if mismatch(self.metadata) else devices.device_of(self.kind)

    @functools.cached_property
    def machine(self) -> Any:
        """The virtual machine, for which all code is generated: only if it is used."""
        made = devices.virtual_machine(self._module, self.kind)
        if self.kind == "cuda" and self.device is not None:
            weakref.finalize(self, device_errors.keep_if_broken, made)
        return made

    @functools.cached_property
    def _module(self) -> Any:
        """The code as a module that all clones share."""
        return runtime.executable_module(self.files.library)

    @functools.cached_property
    def _weights(self) -> Any:
        """The tensors in the parameter file, in the memory of the device."""
        if self.files.weights is None:
            hint = "build the model again, or load it with its parameter file beside it"
            raise error("the parameter file of this model is missing", hint=hint)
        described = self.metadata["weights"]["tensors"]
        return runtime.tensors_in(self.files.weights, described, self.device)

    def clone(self) -> Program:
        """Return another machine with the same code and weights."""
        if self.device is not None:  # Only what is loaded before the copy is shared.
            _ = self._module, self.metadata["weights"] and self._weights
        made = object.__new__(Program)
        vars(made).update(vars(self))
        made.turn = threading.RLock()
        vars(made).pop("machine", None)
        return made

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the library, with the weights that it takes bound to it."""
        called, described = self.machine[name], self.metadata["weights"]
        if described is None or name not in described["functions"]:
            return called  # type: ignore[no-any-return]
        weights = self._weights
        return lambda *arguments: called(*arguments, weights)

    def tensors(self, arrays: Iterable[Array]) -> list[Any]:
        """Return arrays as tensors of the device; NnefError if this machine does not have it."""
        if self.device is None:
            raise missing_device(self.metadata, self.kind)
        return runtime.runtime_tensors(arrays, self.device)

    def entry(self, name: str) -> Callable[[Sequence[Any], int], list[Any]]:
        """Return a function that runs the model, given its arguments and the number of threads.

        A GPU may not have computed the results when it returns (:meth:`synchronize`). It raises
        NnefError for a check of the model that fails, and for memory that is not there.
        """
        main = self.function(name)
        # Without arguments. It would take longer to call it directly: the text would be copied.
        self.machine["set_input"](METADATA)
        let_go = functools.partial(self.machine["invoke_stateful"], METADATA)

        def started(arguments: Sequence[Any], threads: int) -> list[Any]:
            try:
                use_threads(threads)
                result = main(*arguments)
                # The machine keeps what it returned last. It would hold these tensors during the
                # next run, which then writes to other memory, that no cache has.
                let_go()
            except (RuntimeError, TypeError, ValueError) as problem:
                known = run_error(problem)
                if known is None:
                    raise
                raise known from None
            return [result] if isinstance(result, runtime.Tensor) else runtime.items(result)

        return started

    def synchronize(self) -> None:
        """Wait until a GPU has computed what was started."""
        if self.kind == "cuda":
            device_errors.synchronize(self.device)

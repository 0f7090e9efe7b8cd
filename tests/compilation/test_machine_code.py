"""What is in the machine code of kernels, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.pipeline import compile_phases
from tvm_nnef.executable.devices import virtual_machine
from tvm_nnef.tvm_support.compat import runtime_tensor

TEXT = """import math;
graph G { @input { x: real[2,3]; } @output { y: real[2,3]; } @compose { y = math.exp(x); } }
"""


def test_the_machine_checks_what_it_is_given_and_kernels_do_not() -> None:
    library = compile_phases(tvm_nnef.from_nnef(TEXT), "native")["code"]
    (kernels,) = library.mod.imports
    assert "SetRaised" not in kernels.inspect_source("ll")
    main = virtual_machine(library)["main"]
    x = np.zeros((2, 3), "float32")
    (y,) = main(runtime_tensor(x))
    np.testing.assert_array_equal(y.numpy(), np.ones((2, 3)))
    for wrong in (x.T, x.astype("float64"), x[0]):
        with pytest.raises((RuntimeError, ValueError), match="param=x"):
            main(runtime_tensor(np.ascontiguousarray(wrong)))

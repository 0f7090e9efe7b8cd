"""What a compiled library says of itself: a module in, the same module with a function ``metadata``.

The function takes nothing and returns a JSON object; programs that load the library call it.

- ``inputs``, ``outputs``: a list each, in order, of ``name``, ``shape``, ``dtype`` and ``items``
  (null for a tensor, else the length of a pack, whose tensors all have that shape and dtype unless
  ``shape`` and ``dtype`` are lists of one for each);
- ``state``: how many of the last parameters and results are the state (0);
- ``versions``: of ``tvm_nnef`` and ``tvm``.
"""

from __future__ import annotations

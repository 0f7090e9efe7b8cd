"""What operators of the standard library declare in no word of the draft.

A model of the tools dialect says about its operators which attributes are ``dynamic``; the
standard modules are in the draft's dialect, and have it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tvm_nnef.semantics.program import PackRole

DYNAMIC: Final[Mapping[str, frozenset[str]]] = {
    "layout.tensor": frozenset({"shape", "value"}),
    "layout.uniform": frozenset({"shape"}),
    "layout.range": frozenset({"first", "last"}),
    "layout.reshape": frozenset({"shape"}),
    "layout.unflatten": frozenset({"shape"}),
    "layout.split": frozenset({"count", "sizes"}),
    "layout.broadcast": frozenset({"shape"}),
    "layout.slice": frozenset({"begin", "end"}),
    "layout.pad": frozenset({"padding"}),
    "image.nearest_resize": frozenset({"size"}),
    "image.linear_resize": frozenset({"size"}),
    "image.cubic_resize": frozenset({"size"}),
    "image.resize": frozenset({"size"}),
    "algo.top_k": frozenset({"k"}),
    "algo.nonmax_suppress": frozenset({"max_outputs_per_class"}),
}
"""The attributes of standard operators that take values known only at run time."""


PACKS: Final[Mapping[str, PackRole]] = {
    "layout.stack": "stack",
    "layout.concat": "concat",
    "layout.unstack": "unstack",
    "layout.split": "split",
}
"""The standard operators that take or give packs of dynamic length."""

"""Old names of the machine model, for files that are about to change."""

from __future__ import annotations

from tvm_nnef.schedules.machine import GENERIC as UNKNOWN
from tvm_nnef.schedules.machine import CpuModel as Description
from tvm_nnef.schedules.machine import bits_of
from tvm_nnef.schedules.machine import cpu_model as describe

__all__ = ["UNKNOWN", "Description", "bits_of", "describe"]

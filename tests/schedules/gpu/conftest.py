"""What the tests of schedules for GPUs share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def gpu(simulation: Any) -> Any:
    """The helpers of ``simulation.py``."""
    return simulation

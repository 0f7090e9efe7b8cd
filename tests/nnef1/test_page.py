"""The table of ``docs/nnef1.md`` says what operations become."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "write_nnef1.py"), "--check"]
    found = subprocess.run(script, check=False, capture_output=True, text=True)
    assert not found.returncode, f"run: python scripts/write_nnef1.py {found.stderr}"

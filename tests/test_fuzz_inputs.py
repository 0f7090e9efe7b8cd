"""A small sample of damaged inputs; scripts/fuzz_inputs.py makes longer runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "fuzz_inputs.py"


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("dat", "archive", "library")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["text", "json", "onnx", *SLOW])
def test_damaged_inputs_give_diagnostics(kind: str, tmp_path: Path) -> None:
    options = ["--kind", kind, "--seed", "7", "--count", "40", "--output", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{kind}: 40 inputs from seed 7\n"


def test_a_failure_is_saved_with_its_seed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1]); import fuzz_inputs as f\n"
        "def read(data, folder):\n"
        "    if data == f.made(kind, [b'abc'], 3): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    if data == f.made(kind, [b'abc'], 5): raise KeyError('x')\n"
        "    if data == f.made(kind, [b'abc'], 8): bytearray(1 << 40)\n"
        "kind = f.Kind(lambda: [b'abc'], lambda c, d, s: b'%d' % c.randrange(10**9), read)\n"
        "f.KINDS = {'text': kind}\n"
        "sys.exit(f.main(['--seed', '0', '--count', '12', '--output', sys.argv[2]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, SCRIPT.parent, tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text-3", "text-5", "text-8"]
    for word in ("SIGSEGV", "KeyError", "MemoryError"):
        assert word in done.stdout

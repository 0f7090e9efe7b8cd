"""The tables of ``docs/converters.md`` and ``docs/onnx-operators.md`` say what is converted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_nnef.formats.registry import FORMATS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "converters.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("jax")
    opset = onnx.defs.onnx_opset_version()
    if f"operators of opset {opset} " not in PAGE:
        pytest.skip(f"the page is of another version of ONNX than that of opset {opset}")
    script = [sys.executable, str(ROOT / "scripts" / "write_converters.py"), "--check"]
    found = subprocess.run(script, check=False, capture_output=True, text=True)
    assert not found.returncode, f"run: python scripts/write_converters.py {found.stderr}"


def test_the_table_of_onnx_operators_is_up_to_date() -> None:
    onnx = pytest.importorskip("onnx")
    page = (ROOT / "docs" / "onnx-operators.md").read_text(encoding="utf-8")
    if f"here is {onnx.defs.onnx_opset_version()}." not in page:
        pytest.skip("the page is of another version of ONNX")
    script = [sys.executable, str(ROOT / "scripts" / "write_onnx_operators.py"), "--check"]
    found = subprocess.run(script, check=False, capture_output=True, text=True)
    assert not found.returncode, f"run: python scripts/write_onnx_operators.py {found.stderr}"


def test_the_page_links_to_the_page_of_each_format() -> None:
    foreign = [each for each in FORMATS if each.is_foreign]
    assert set(re.findall(r"^\| \[.*?\]\((\w+)\.md\)", PAGE, re.MULTILINE)) == {
        each.name for each in foreign
    }


def test_the_page_describes_each_option() -> None:
    pytest.importorskip("jaxlib", reason="StableHLO needs JAX")
    described = set(re.findall(r"^\| `(\w+)=", PAGE, re.MULTILINE))
    assert described == {name for each in FORMATS if each.is_foreign for name in each.options}

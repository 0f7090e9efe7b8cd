"""What cannot be exported to NNEF 1: all of it with its position; and bad destinations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import NnefError

pytestmark = pytest.mark.sampled(3)

GOOD = """import math;
graph G { @input { x: real[2]; } @output { y: real; } @compose { y = math.neg(x); } }"""


def refused(text: str, tmp_path: Path, **options: object) -> tuple[str, ...]:
    """The messages of an export that fails; nothing is written."""
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(text, tmp_path / "out.nnef1", **options)
    assert not list(tmp_path.iterdir())
    found = caught.value.diagnostics
    assert all(each.span is not None and each.hint for each in found)
    return tuple(each.message for each in found)


def test_every_operation_is_reported(tmp_path: Path) -> None:
    text = """import math, algo, nn;
    operator own { @input { x: real[s..]; } @output { y: real[s..]; }
                   @lower { y[i..] = x[i..] * 2.0, i < s; } }
    operator outer { @input { x: real[s..]; } @output { y: real[s..]; }
                     @compose { y = own(x); } }
    graph G {
        @input { x: real[3]; n: int[3]; }
        @output { a: real; b: int; c: real; d: int; e: real; f: real; }
        @compose {
            a, b = algo.top_k{k=2}(x); c = own(x); d = math.add(n, n); e = nn.erf(a);
            f = outer(x);
        }
    }"""
    messages = refused(text, tmp_path)
    names = [each.partition(" cannot")[0] for each in messages]
    assert names == [
        "'a': operator 'algo.top_k'", "'c': operator 'main.own'", "'d': operator 'math.add'",
        "'e': operator 'nn.erf'", "'y': operator 'main.own'",
    ]  # fmt: skip
    assert "no formulas" in messages[1] and "integer" in messages[2]


def test_dynamic_shapes(tmp_path: Path) -> None:
    text = GOOD.replace("real[2]", "real[n|8, 3]")
    messages = refused(text, tmp_path)
    assert [each.partition(" cannot")[0] for each in messages] == [
        "input 'x'", "'y': operator 'math.neg'",
    ]  # fmt: skip
    assert all("[n, 3]" in each for each in messages)
    tvm_nnef.convert(text, tmp_path / "out.nnef1", input_shapes={"x": (4, 3)})
    assert "shape = [4, 3]" in (tmp_path / "out.nnef1" / "graph.nnef").read_text()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    kind = "real" if dtype.startswith("float") else "int"
    text = GOOD.replace("real", kind).replace("math.neg", "math.iden")
    messages = refused(text, tmp_path, dtypes={kind: dtype})
    assert len(messages) == 2 and all(dtype in each for each in messages)


def test_control_flow(tmp_path: Path) -> None:
    text = """import math;
    graph G { @input { x: real[2]; c: bool[]; } @output { y: real[2]; z: real[2]; }
        @compose {
            y = if c then math.neg(x) else math.exp(x);
            z = with s = x do..(3) { t = math.exp(s); yield t; };
        }
    }"""
    messages = refused(text, tmp_path)
    assert len(messages) == 2
    assert "NNEF 1 has no branches" in messages[0] and "NNEF 1 has no loops" in messages[1]


def test_tensors_without_elements(tmp_path: Path) -> None:
    assert "[0]" in refused(GOOD.replace("real[2]", "real[0]"), tmp_path)[0]


def test_a_folder_of_others_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "out.nnef1"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(NnefError, match=r"notes\.txt"):
        tvm_nnef.convert(GOOD, folder)
    assert [each.name for each in folder.iterdir()] == ["notes.txt"]
    tvm_nnef.convert(GOOD, folder, overwrite=True)
    tvm_nnef.convert(GOOD.replace("neg", "exp"), folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert "exp(x)" in (folder / "graph.nnef").read_text()


def test_an_own_folder_is_replaced(tmp_path: Path) -> None:
    for name in ("neg", "exp"):
        tvm_nnef.convert(GOOD.replace("neg", name), tmp_path / "out.nnef1")
    (found,) = tvm_nnef.evaluate(tmp_path / "out.nnef1", np.zeros(2, np.float32))
    np.testing.assert_array_equal(found, [1, 1])


def test_bad_destinations(tmp_path: Path, devices: Path) -> None:
    (tmp_path / "file.nnef1").write_text("a file")
    (tmp_path / "device.nnef1").symlink_to(devices / "full")
    (tmp_path / "full.nnef1.tgz").symlink_to(devices / "full")
    cases = {
        "file.nnef1": "this is a file",
        "device.nnef1": "stream",
        "full.nnef1.tgz": "No space left on device",
        "missing/out.nnef1": "there is no folder",
    }
    before = sorted(tmp_path.iterdir())
    for name, reason in cases.items():
        with pytest.raises(NnefError, match=reason):
            tvm_nnef.convert(GOOD, tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


def test_the_source_is_not_replaced(tmp_path: Path) -> None:
    tvm_nnef.convert(GOOD, tmp_path / "out.nnef1")
    with pytest.raises(NnefError, match="it is the source"):
        tvm_nnef.convert(tmp_path / "out.nnef1", tmp_path / "out.nnef1", overwrite=True)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "model.sknd"
    source.write_text(GOOD)
    for end in (".nnef1", ".nnef1/", ".nnef1.tgz"):
        assert main(["convert", str(source), f"{tmp_path}/out{end}"]) == 0
    assert "wrote" in capsys.readouterr().out
    (tmp_path / "out.nnef1" / "graph.nnef").write_text("changed")
    arguments = ["convert", str(source), str(tmp_path / "out.nnef1")]
    assert main(arguments) != 0
    assert main([*arguments, "--overwrite"]) == 0

"""The folder that tuning writes: whole files, distinguished from damaged and foreign ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te

from tvm_nnef.compilation.target import resolve
from tvm_nnef.compilation.traces import complaint, scheduled_by
from tvm_nnef.compilation.tuning_database import (
    HEADER,
    MAX_BYTES,
    Database,
    Measured,
    Record,
    hash_of,
)
from tvm_nnef.diagnostics import NnefError

NATIVE = resolve("native")


def kernel() -> Any:
    x = te.placeholder((64,), name="x")
    doubled = te.compute((64,), lambda i: x[i] * 2.0, name="y")
    return te.create_prim_func((x, doubled)).without_attr("global_symbol")


TRACE = [
    [
        ["GetSBlock", [], ["y", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["Split", ["l1", 4, 16], [True, False], ["l2", "l3"]],
        ["Vectorize", ["l3"], [], []],
    ],
    [],
]
UNROLL = "pragma_auto_unroll_max_step"
RECORD = Record("y", "strategy", "0" * 16, 2, 8, 2e-3, 1e-3, TRACE, (Measured(1e-3, TRACE),))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database.opened(tmp_path / "db", NATIVE, create=True)


def test_what_is_written_is_read_again(database: Database) -> None:
    assert database.read(kernel()) is None
    database.write(kernel(), RECORD)
    assert database.read(kernel()) == RECORD
    assert Database.opened(database.folder, NATIVE).read(kernel()) == RECORD
    names = sorted(file.name for file in database.folder.iterdir())
    assert names == sorted([HEADER, f"{hash_of(kernel())}.json"])


def test_a_schedule_of_the_database_is_applied(database: Database) -> None:
    by_strategies = kernel()
    function = kernel()
    database.write(function, Record(**{**fields(), "strategy_hash": hash_of(by_strategies)}))
    found = database.tuned("y", function, lambda: (by_strategies, "strategy"))
    assert found is not None
    assert "T.vectorized(16)" in found.script()
    assert hash_of(function) == hash_of(kernel()), "the kernel itself is as it was"


def fields() -> dict[str, Any]:
    return {name: getattr(RECORD, name) for name in Record.__slots__}


def test_a_schedule_that_was_compared_with_other_strategies_is_left(database: Database) -> None:
    database.write(kernel(), RECORD)
    assert database.tuned("y", kernel(), lambda: (kernel(), "strategy")) is None
    assert database.stale == ["y"]


def test_a_folder_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NnefError, match="not a tuning database"):
        Database.opened(tmp_path / "missing", NATIVE)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NnefError, match="not a tuning database"):
        Database.opened(tmp_path, NATIVE, create=True)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tvm": "0.1"}, "another version of TVM"),
        ({"target": {"kind": "llvm", "mcpu": "other"}}, "another target"),
        ({"format": 99}, "of format 99"),
    ],
)
def test_a_database_of_another_kind_is_refused(
    database: Database, change: dict[str, Any], message: str
) -> None:
    header = database.folder / HEADER
    header.write_text(json.dumps({**json.loads(header.read_text()), **change}))
    with pytest.raises(NnefError, match=message):
        Database.opened(database.folder, NATIVE)


def entry(**changes: Any) -> str:
    """The text of a record with some members changed, or left out where they are ``...``."""
    traces = [{"seconds": 1e-3, "trace": TRACE}]
    whole = {**fields(), "format": 1, "traces": traces, **changes}
    return json.dumps({name: value for name, value in whole.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a JSON object is expected"),
        ('{"name": NaN}', "missing"),
        (entry(traces=...), "missing"),
        (entry(trials="many"), "of another type"),
        (entry(strategy_seconds=-1), "more than 0"),
        (entry(strategy_seconds=float("nan")), "more than 0"),
        (entry(traces=[{"seconds": 1, "trace": 7}]), "a list of steps"),
        (entry(chosen=[[["Fly", [], [], []]], []]), "'Fly' is not a step"),
        (entry(chosen=[[["UnsafeSetDType", [], [], []]], []]), "not a step"),
        (entry(chosen=[[["Annotate", ["b0", "x"], ["pragma_import_llvm"], []]], []]), "annotation"),
        (entry(chosen=[[["Annotate", ["l1", 2**30], [UNROLL], []]], []]), "annotation"),
        (entry(chosen=[[["Annotate", ["l1", '"x"'], [UNROLL], []]], []]), "annotation"),
        (entry(chosen=[[["CacheWrite", ["b0", []], [0, "global.vtcm"], ["b1"]]], []]), "no CPU"),
        (entry(chosen=[[["Split", {}, [], []]], []]), "unreadable arguments"),
        (entry(chosen=[[], [[3, 1]]]), "not there"),
    ],
)
def test_a_damaged_record_is_an_error_with_its_file(
    database: Database, text: str, message: str
) -> None:
    file = database.folder / f"{hash_of(kernel())}.json"
    file.write_text(text)
    with pytest.raises(NnefError, match=message) as caught:
        database.tuned("y", kernel(), lambda: (kernel(), "strategy"))
    assert file.name in str(caught.value)


def test_a_file_that_is_too_large_is_not_read(database: Database) -> None:
    file = database.folder / f"{hash_of(kernel())}.json"
    with file.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(NnefError, match="too large"):
        database.read(kernel())


def broken(number: int, step: list[Any]) -> list[Any]:
    trace = copy.deepcopy(TRACE)
    trace[0][number] = step
    return trace


@pytest.mark.parametrize(
    "trace",
    [
        broken(0, ["GetSBlock", [], ["nothing", "main"], ["b0"]]),
        broken(1, ["GetLoops", ["b9"], [], ["l1"]]),
        broken(2, ["Split", ["l1", 4, 2**31], [True, False], ["l2", "l3"]]),
        broken(2, ["Split", ["l1", -4, 0], [True, False], ["l2", "l3"]]),
        broken(2, ["Split", ["b0", "l1"], [True, False], ["l2", "l3"]]),
        broken(2, ["Split", [], [], []]),
        broken(2, ["Split", ["l1", 4, 16], [True, False], []]),
        broken(3, ["Vectorize", [None], [], []]),
        broken(3, ["Vectorize", [["l3"]], [], []]),
        broken(3, ["Vectorize", ["l3", "l3"], ["x"], ["y"]]),
        broken(3, ["Vectorize", ["l3"], [], ["l9"]]),
        broken(3, ["ComputeInline", ["b0"], [], []]),
    ],
)
def test_a_schedule_that_does_not_fit_is_an_error_and_no_crash(
    database: Database, trace: Any
) -> None:
    assert complaint(trace) is None
    assert scheduled_by(kernel(), trace) is None
    database.write(
        kernel(), Record(**{**fields(), "strategy_hash": hash_of(kernel()), "chosen": trace})
    )
    with pytest.raises(NnefError, match="does not fit"):
        database.tuned("y", kernel(), lambda: (kernel(), "strategy"))


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.write(kernel(), RECORD)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(NnefError, match="No space left"):
        database.write(kernel(), Record(**{**fields(), "trials": 99}))
    monkeypatch.undo()
    assert database.read(kernel()) == RECORD
    assert len(list(database.folder.iterdir())) == 2


def test_two_do_not_tune_into_a_folder_at_once(database: Database) -> None:
    other = Database.opened(database.folder, NATIVE, create=True)
    with (
        database.kept_from_others(),
        pytest.raises(NnefError, match="another process is tuning"),
        other.kept_from_others(),
    ):
        pass
    with other.kept_from_others():
        assert other.read(kernel()) is None


def test_what_a_process_that_died_was_writing_is_in_no_way(tmp_path: Path) -> None:
    for name in (f".{HEADER}.12", f".{'0' * 16}.json.12"):
        (tmp_path / name).write_text('{"format"')
    database = Database.opened(tmp_path, NATIVE, create=True)
    (tmp_path / ".mine.json.12").write_text("mine")
    with database.kept_from_others():
        assert {file.name for file in tmp_path.iterdir()} == {HEADER, ".mine.json.12"}


def test_names_of_variables_are_not_part_of_a_kernel() -> None:
    x = te.placeholder((64,), name="another")
    doubled = te.compute((64,), lambda i: x[i] * 2.0, name="y")
    renamed = te.create_prim_func((x, doubled)).without_attr("global_symbol")
    assert hash_of(renamed) == hash_of(kernel())
    assert isinstance(renamed, tvm.tirx.PrimFunc)

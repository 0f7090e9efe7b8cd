"""Building, calling, exporting and loading: what goes in, what comes out, what is refused."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tvm_nnef.arguments.ports import PackInfo, TensorInfo
from tvm_nnef.compilation.metadata import describe
from tvm_nnef.compilation.options import Compiling
from tvm_nnef.compilation.passes import passes
from tvm_nnef.compilation.pipeline import build_module, compile_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.diagnostics import InputError, NnefError
from tvm_nnef.executable import devices
from tvm_nnef.executable.loading import load
from tvm_nnef.tvm_support import compat, runtime, threads
from tvm_nnef.tvm_support.compat import prim_functions
from tvm_nnef.tvm_support.threads import default_threads

ROOT = Path(__file__).resolve().parents[2]
PORTS = {
    "inputs": [{"name": "xs", "items": 2}, {"name": "n", "items": None}],
    "outputs": [{"name": "total", "items": None}, {"name": "parts", "items": 2}],
}


def example() -> tvm.IRModule:
    """(xs: real[2,3] twice, n: int[4]) -> (the sum of xs, [the first, n + n])"""
    builder = relax.BlockBuilder()
    first, second = (relax.Var(f"xs_{n}", relax.TensorType((2, 3), "float32")) for n in range(2))
    number = relax.Var("n", relax.TensorType((4,), "int32"))
    attributes = {"nnef_ports": json.dumps(PORTS), "num_input": 3}
    with builder.function("main", [first, second, number], attrs=attributes):
        with builder.dataflow():
            total = builder.emit(relax.op.add(first, second))
            twice = builder.emit(relax.op.add(number, number))
            output = builder.emit_output(relax.Tuple([total, first, twice]))
        builder.emit_func_output(output)
    return builder.get()


@pytest.fixture(scope="module")
def executable():
    return build_module(example())


A = np.arange(6, dtype="float32").reshape(2, 3)
N = np.array([1, 2, 3, 4], "int32")


def check(results) -> None:
    total, (first, twice) = results
    np.testing.assert_array_equal(total, A * 3)
    np.testing.assert_array_equal(first, A)
    np.testing.assert_array_equal(twice, N * 2)
    assert (total.dtype, twice.dtype) == ("float32", "int32")


def test_inputs_and_outputs_are_described(executable):
    assert executable.inputs == (
        PackInfo(
            "xs", (TensorInfo("xs_0", (2, 3), "float32"), TensorInfo("xs_1", (2, 3), "float32"))
        ),
        TensorInfo("n", (4,), "int32"),
    )
    assert [port.name for port in executable.outputs] == ["total", "parts"]
    assert executable.state == {}
    assert set(executable.metadata["versions"]) == {"tvm_nnef", "tvm", "tvm_ffi"}


@pytest.mark.parametrize(
    "given",
    [
        ([A, A * 2], N),
        ((A.astype("float64"), (A * 2).astype("float16")), N.astype("int64")),
        ([tvm.runtime.tensor(A), np.asfortranarray(A * 2)], tvm.runtime.tensor(N)),
        ([A[::1], (A * 2).tolist()], [1, 2, 3, 4]),
    ],
    ids=["numpy", "converted within the kind", "dlpack and strides", "lists"],
)
def test_calls(executable, given):
    check(executable(*given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([A, A],), "takes 2 inputs ('xs', 'n'), got 1"),
        ((A, N), "input 'xs' is a pack: expected a list of 2"),
        (([A], N), "input 'xs' is a pack: expected a list of 2, got 1"),
        (([A, A.T], N), "input 'xs', item 2: expected shape (2, 3), got (3, 2)"),
        (([A, A.astype("c8")], N), "input 'xs', item 2: expected real (float32), got complex64"),
        (([A, A], N.astype("float32")), "input 'n': expected int (int32), got float32"),
        (([A, A], N.astype("int64") << 40), "input 'n': there are values that int32 cannot hold"),
    ],
)
def test_wrong_inputs_are_named_with_what_was_expected_and_what_was_given(
    executable, given, message
):
    with pytest.raises(NnefError) as caught:
        executable(*given)
    assert message in str(caught.value)


def test_results_do_not_change_when_called_again(executable):
    first = executable([A, A * 2], N)
    executable([A * 5, A * 7], N * 9)
    check(first)


def test_benchmark_needs_no_inputs(executable):
    timing = executable.benchmark(repeat=3)
    assert 0 < timing.minimum <= timing.median
    assert timing.runs == 3
    with pytest.raises(InputError, match="cannot measure 0 runs"):
        executable.benchmark(repeat=0)


def test_export_and_load_round_trip(executable, tmp_path):
    path = tmp_path / "model.so"
    executable.export(path)
    assert [file.name for file in tmp_path.iterdir()] == ["model.so"]
    loaded = load(path)
    assert loaded.metadata == executable.metadata
    check(loaded([A, A * 2], N))
    loaded.export(tmp_path / "copy.so")
    check(load(tmp_path / "copy.so")([A, A * 2], N))


@pytest.mark.slow
def test_an_exported_library_gives_its_metadata_to_any_program(executable, tmp_path):
    path = tmp_path / "model.so"
    executable.export(path)
    program = (
        "import sys, json, tvm; from tvm import relax\n"
        "machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())\n"
        "print(json.loads(str(machine['metadata']()))['inputs'][1])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "{'name': 'n', 'shape': [4], 'dtype': 'int32'}"


def test_a_failed_export_leaves_no_files(executable, tmp_path):
    taken = tmp_path / "model.so"
    taken.mkdir()
    with pytest.raises(NnefError, match="cannot be written"):
        executable.export(taken)
    assert [file.name for file in tmp_path.iterdir()] == ["model.so"]
    with pytest.raises(NnefError, match="there is no folder"):
        executable.export(tmp_path / "nowhere" / "model.so")


def test_code_for_a_machine_of_another_kind_is_exported_and_not_called(tmp_path):
    other = "riscv64" if platform.machine() != "riscv64" else "aarch64"
    executable = build_module(example(), other)
    with pytest.raises(NnefError, match=f"is built for {other} with Linux, this"):
        executable([A, A], N)
    executable.reset()
    executable.export(tmp_path / "model.tar")
    assert (tmp_path / "model.tar").stat().st_size


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(NnefError, match="there is no file"):
        load(tmp_path / "missing.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(NnefError, match="cannot load"):
        load(tmp_path / "text.so")
    library = tmp_path / "other.so"
    relax.build(example(), "llvm").export_library(str(library))
    with pytest.raises(NnefError, match="cannot load"):
        load(library)


def test_dump_dir_receives_the_module_after_each_pass(tmp_path):
    seen, target = [], resolve("llvm")
    options = Compiling(dump_dir=tmp_path / "dump")
    compile_phases(example(), "llvm", options, progress=lambda *step: seen.append(step))
    every = passes(target)
    numbers = [number for _, number, _ in seen]
    assert sorted(numbers) == numbers
    assert {int(number) for number in numbers} == set(range(len(every)))
    assert {total for *_, total in seen} == {len(every)}
    assert list(dict.fromkeys(words for words, *_ in seen)) == [
        "reading weights", "simplifying the graph", "fusing operators", "scheduling kernels",
        "scheduling 1 of 2 kernels", "scheduling 2 of 2 kernels",
        "planning memory", "optimizing 2 kernels", "machine code of 2 kernels",
    ]  # fmt: skip
    texts = {file.name: file.read_text() for file in (tmp_path / "dump").iterdir()}
    listed = texts.pop("passes.txt").splitlines()
    assert [line.split()[2] for line in listed] == [each.name for each in every]
    assert "cpu.elementwise" in texts.pop("kernels.txt")
    changed = [line for line in listed if "unchanged" not in line]
    assert sorted(texts) == sorted(f"{line.split()[0]}_{line.split()[2]}.txt" for line in changed)
    of_pass = {name[3:-4]: text for name, text in texts.items()}
    assert "R.add" in of_pass["describe_interface"]
    assert "R.add" not in of_pass["legalize_operators"]
    assert "T.vectorized" in of_pass["schedule_kernels"]
    assert "T.Ramp" not in of_pass["narrow_indices"]
    assert "T.Ramp" in of_pass["vectorize_loops"]


def test_every_pass_leaves_a_well_formed_module():
    seen = []

    def check(number, each, state, seconds):
        seen.append(each.name)
        if each.phase in ("bind", "graph", "fuse", "schedule"):
            relax.analysis.well_formed(state)  # raises an exception for what is not
        if each.phase == "lower" and "lower_blocks" in seen:
            for function in prim_functions(state).values():
                assert tirx.analysis.verify_well_formed(function), each.name

    compile_phases(example(), "llvm", after=check)
    assert seen == [each.name for each in passes(resolve("llvm"))]


def test_timings_name_every_pass_once():
    found = []
    build_module(example(), "llvm", Compiling(timings=found.append))
    (timings,) = found
    assert [each.name for each in timings.passes] == [each.name for each in passes(resolve("llvm"))]
    assert timings.total == pytest.approx(sum(each.seconds for each in timings.passes))


def test_names_of_passes_are_unique():
    names = [each.name for each in passes(resolve("native"), Compiling(checked=True))]
    assert len(set(names)) == len(names)


def test_progress_is_silent_where_there_is_no_terminal(capfd):
    build_module(example(), "llvm", progress=True)
    assert capfd.readouterr() == ("", "")


def test_metadata_of_a_module_that_names_no_ports():
    mod = example()
    bare = tvm.IRModule({"main": mod["main"].without_attr("nnef_ports")})
    described = describe(bare, resolve("llvm"))
    assert [port["name"] for port in described["inputs"]] == ["xs_0", "xs_1", "n"]
    assert [port["name"] for port in described["outputs"]] == ["output_0", "output_1", "output_2"]


@pytest.mark.slow
def test_all_cores_are_used_from_the_first_call_on(monkeypatch):
    """TVM by itself takes half of the hardware threads, from the first use on."""
    program = (
        "import tvm; from tvm_nnef.tvm_support.threads import default_threads, use_threads\n"
        "use_threads(default_threads()); print(tvm.get_global_func('runtime.NumThreads')())"
    )
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) == default_threads()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TVM_NUM_THREADS": "1"}, 1),
        ({"TVM_NUM_THREADS": "1000000"}, 3),
        ({"OMP_NUM_THREADS": "2,1"}, 2),
        ({"TVM_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}, 2),
        ({"TVM_NUM_THREADS": "0"}, 3),
        ({"TVM_NUM_THREADS": "-1"}, 3),
        ({"TVM_NUM_THREADS": "many", "OMP_NUM_THREADS": "1"}, 1),
    ],
)
def test_variables_of_the_environment_set_threads(monkeypatch, variables, expected):
    monkeypatch.setattr(threads, "_cores", lambda: [0, 1, 2])
    monkeypatch.setattr(threads, "processor_quota", lambda: None)
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_threads() == expected


def test_a_quota_of_processors_is_kept_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: [0, 1, 2, 3])
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "processor_quota", lambda: 2)
    assert default_threads() == 2
    monkeypatch.setattr(threads, "processor_quota", lambda: 9)
    assert default_threads() == 4
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    monkeypatch.setattr(threads, "processor_quota", lambda: 2)
    assert default_threads() == 3


def test_threads_of_python_call_in_turns_and_each_has_all_cores(executable):
    """TVM's machine breaks when calls overlap, and its pools would share a single core."""
    cores, in_use = os.sched_getaffinity(0), tvm.get_global_func("runtime.NumThreads")

    def call(number):
        for _ in range(200):
            total, _ = executable([A + number, A], N)
            np.testing.assert_array_equal(total, A * 2 + number)
        return in_use(), os.sched_getaffinity(0)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(call, range(4)):
            assert found == (executable.threads, cores)


def test_threads_are_those_of_the_executable_that_runs(executable):
    in_use = tvm.get_global_func("runtime.NumThreads")
    cores = len(os.sched_getaffinity(0))
    other = build_module(example(), "llvm")
    assert executable.threads == default_threads()
    try:
        other.threads = 1
        other([A, A], N)
        assert in_use() == 1
        executable.threads = 10 * cores
        executable([A, A], N)
        assert in_use() == cores, "never more than there are cores"
    finally:
        executable.threads = default_threads()


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "all"])
def test_threads_are_a_number_from_one(executable, count):
    with pytest.raises(NnefError, match="threads cannot be"):
        executable.threads = count


def test_what_is_prepared_runs_without_touching_the_state(executable):
    call = executable.prepared([A, A * 2], N)
    call()
    check(executable([A, A * 2], N))


def test_a_target_without_schedules_is_an_error():
    with pytest.raises(NnefError, match="no schedules for the target 'c'"):
        build_module(example(), {"kind": "c"})


def test_the_results_of_one_run_are_written_where_those_of_the_last_one_were(executable):
    call = executable.prepared([A, A * 2], N)

    def position():
        return np.from_dlpack(call()[0]).ctypes.data

    assert position() == position()


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_large_tensors_are_copies_on_the_boundaries_that_tvm_wants(dtype):
    array = (np.arange(5 << 18) % 3).astype(dtype).reshape(1 << 10, -1).T
    before = array.copy()
    tensor = compat.runtime_tensor(array)
    array[...] = 0
    held = np.from_dlpack(tensor)
    assert held.ctypes.data % 64 == 0
    assert held.dtype == before.dtype
    np.testing.assert_array_equal(held, before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "uint8"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 2)])
def test_tensors_are_copies_of_arrays_of_every_kind(dtype, shape):
    array = (np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype)
    for order in (array, array.copy(order="F")):
        tensors = [runtime.runtime_tensor(order) for _ in range(20)]
        for tensor in tensors:
            found = runtime.array_of(tensor)
            assert (found.shape, found.dtype) == (shape, array.dtype)
            np.testing.assert_array_equal(found, array)


def with_weights() -> tvm.IRModule:
    """(x: real[2,3]) -> x + weights"""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    ports = {"inputs": [{"name": "x", "items": None}], "outputs": [{"name": "y", "items": None}]}
    with builder.function("main", [x], attrs={"nnef_ports": json.dumps(ports), "num_input": 1}):
        with builder.dataflow():
            output = builder.emit_output(relax.op.add(x, relax.const(A * 10)))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.parametrize("name", ["quiet.so", "quiet.tar"])
def test_a_library_with_weights_is_exported_and_loaded_without_a_message(name, tmp_path, capfd):
    executable = build_module(with_weights())
    executable(A)
    executable.export(tmp_path / name)
    (output,) = load(tmp_path / name)(A)
    np.testing.assert_array_equal(output, A * 11)
    assert capfd.readouterr() == ("", "")


def test_code_for_running_is_generated_when_it_first_runs(monkeypatch, tmp_path):
    made, make = [], devices.virtual_machine
    monkeypatch.setattr(
        devices,
        "virtual_machine",
        lambda library, kind: made.append(kind) or make(library, kind),
    )
    executable = build_module(example())
    executable.export(tmp_path / "library.so")
    assert not made
    for _ in range(2):
        check(executable([A, A + A], N))
    assert made == ["cpu"]

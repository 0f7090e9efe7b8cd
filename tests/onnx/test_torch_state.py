"""PyTorch modules that change their buffers, compared with PyTorch over several calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.reference import evaluate

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
nn = torch.nn


class Module(nn.Module):
    """A module with buffers whose ``forward`` is a function of the module and its input."""

    def __init__(self, forward: Callable[..., Any], parts: Any = (), **buffers: Any) -> None:
        super().__init__()
        self.function, self.parts = forward, nn.ModuleList(parts)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def counting(m: Any, x: Any) -> Any:
    m.n += 1
    m.total += x.sum(0)
    return x * m.total * m.weight, m.n


def cache(m: Any, x: Any) -> Any:
    """Attention over a static cache that a call fills further."""
    keys = m.parts[0](x).view(1, x.shape[1], 2, 4).transpose(1, 2)
    position = m.position + torch.arange(x.shape[1])
    m.keys.index_copy_(2, position, keys)
    m.position.add_(x.shape[1])
    mask = torch.arange(16)[None, :] <= position[:, None]
    return nn.functional.scaled_dot_product_attention(keys, m.keys, m.keys, attn_mask=mask)


def recurrent(m: Any, x: Any) -> Any:
    for layer, part in enumerate(m.parts):
        x = part(x, m.hidden[layer])
        m.hidden[layer] = x
    return x


def ring(m: Any, x: Any) -> Any:
    m.rows.index_copy_(0, (m.position % 3)[None], x[None])
    m.position.add_(1)
    return m.rows.mean(0)


def many_dtypes(m: Any, x: Any) -> Any:
    m.f16[0] += x.half()
    m.f64.add_(x.double())
    m.i8.add_(1)
    m.flag.logical_not_()
    return x * m.f64.float() * m.flag, m.f16 + 1, m.i8 * 2


def swapping(m: Any, x: Any) -> Any:
    first = m.first.clone()
    m.first.copy_(m.second)
    m.second.copy_(first)
    return m.first * x


def written_only(m: Any, x: Any) -> Any:
    m.last.copy_(x)
    return x * 2


def constant(m: Any, x: Any) -> Any:
    y = m.first + x
    m.first.fill_(2.0)
    return y


def branching(m: Any, x: Any) -> Any:
    new = torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (m.total, x))
    m.total.copy_(new)
    return x * 2


def of_the_same_name(m: Any, x: Any) -> Any:
    m.x += x
    return x + m.x


def selecting(m: Any, x: Any) -> Any:
    chosen = x[x > 0]
    m.n += chosen.shape[0]
    return chosen * 2, m.n


@dataclass(frozen=True)
class Case:
    """A module, and the shapes of the inputs of each call."""

    module: Callable[[], Any]
    shapes: Sequence[tuple[int, ...]]
    state: int
    in_training: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def norm() -> Any:
    return nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.BatchNorm2d(3, momentum=0.5))


def batches(name: str, axis: int = 0) -> dict[str, Any]:
    return {"dynamic_shapes": ({axis: torch.export.Dim(name, max=8)},), "bounds": {name: 8}}


zeros, count = torch.zeros, lambda: torch.tensor(0)
CASES = {
    "counters beside a constant": Case(
        lambda: Module(counting, n=count(), total=zeros(3), weight=torch.rand(3)), [(2, 3)] * 3, 2
    ),
    "a dynamic dimension": Case(
        lambda: Module(counting, n=count(), total=zeros(3), weight=torch.rand(3)),
        [(4, 3), (2, 3), (1, 3)], 2, options=batches("batch"),
    ),
    "a static cache": Case(
        lambda: Module(cache, [nn.Linear(8, 8)], keys=zeros(1, 2, 16, 4),
                       position=zeros(1, dtype=torch.int64)),
        [(1, 4, 8), (1, 1, 8), (1, 3, 8)], 2, options=batches("time", 1),
    ),
    "layers of a recurrent network": Case(
        lambda: Module(recurrent, [nn.GRUCell(4, 4) for _ in range(2)], hidden=zeros(2, 1, 4)),
        [(1, 4)] * 3, 1,
    ),
    "a ring": Case(lambda: Module(ring, rows=zeros(3, 2), position=count()), [(2,)] * 5, 2),
    "dtypes": Case(
        lambda: Module(many_dtypes, f16=zeros(2, 3).half(), f64=zeros(3).double(),
                       i8=zeros(3, dtype=torch.int8), flag=torch.tensor(False)),
        [(3,)] * 3, 4,
    ),
    "swapped": Case(
        lambda: Module(swapping, first=zeros(3), second=torch.rand(3)), [(3,)] * 3, 2
    ),
    "written and not read": Case(lambda: Module(written_only, last=zeros(3)), [(3,)] * 2, 1),
    "set to a constant": Case(lambda: Module(constant, first=zeros(3)), [(3,)] * 2, 1),
    "a branch": Case(lambda: Module(branching, total=zeros(3)), [(3,)] * 4, 1),
    "called like an input": Case(lambda: Module(of_the_same_name, x=zeros(3)), [(3,)] * 2, 1),
    "counted data": Case(
        lambda: Module(selecting, n=count()), [(6,)] * 3, 1, options={"bounds": 8}
    ),
    "batch norms in training": Case(norm, [(4, 3, 2, 2)] * 3, 6, in_training=True),
    "batch norms of any batch in training": Case(
        norm, [(4, 3, 2, 2), (2, 3, 2, 2)], 6, in_training=True, options=batches("batch")
    ),
}  # fmt: skip


def calls(case: Case) -> tuple[Any, list[tuple[Any, list[np.ndarray], list[np.ndarray]]]]:
    """A module, and by call its input, and what PyTorch gives: outputs, buffers that changed."""
    torch.manual_seed(3)
    module = case.module().train(case.in_training)
    eager = copy.deepcopy(module)
    found = []
    with torch.no_grad():
        for shape in case.shapes:
            x = torch.randn(shape)
            outputs = eager(x)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            buffers = [b for name, b in eager.named_buffers() if name != "weight"]
            found.append((x, [o.numpy().copy() for o in outputs],
                          [b.numpy().copy() for b in buffers]))  # fmt: skip
    return module, found


def close(found: Sequence[Any], expected: Sequence[np.ndarray]) -> None:
    for ours, theirs in zip(map(np.asarray, found), expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        tolerance = 1e-2 if theirs.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-5)


def converted(case: Case, module: Any) -> Any:
    if not case.in_training:
        example = torch.randn(case.shapes[0])
        return tvm_nnef.convert(module, example_inputs=example, **case.options)
    options = {each: case.options[each] for each in case.options if each != "bounds"}
    program = torch.export.export(module, (torch.randn(case.shapes[0]),), **options)
    return tvm_nnef.convert(program, **case.options)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_buffers_change_from_call_to_call(name: str) -> None:
    case = CASES[name]
    module, expected = calls(case)
    model = converted(case, module)
    graph, values = tvm_nnef.compose(model), dict(model.variables)
    executable = tvm_nnef.build(model, progress=False)
    for x, outputs, buffers in expected:
        state: dict[str, Any] = {}
        close(evaluate(graph, [x.numpy()], values, machine_types=graph.machine_types,
                       new_state=state), outputs)  # fmt: skip
        assert len(state) == case.state
        close(list(state.values()), buffers)
        values |= state
        close(executable(x), outputs)
        close(list(executable.state.values()), buffers)
    executable.reset()
    close(executable(expected[0][0]), expected[0][1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_formulas_and_libraries_keep_the_state(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    module, expected = calls(case)
    built = tvm_nnef.build(converted(case, module), route="formula", progress=False)
    built.export(tmp_path / "model.so")
    for executable in (built, tvm_nnef.load(tmp_path / "model.so")):
        for x, outputs, buffers in expected:
            close(executable(x), outputs)
            close(list(executable.state.values()), buffers)


def test_a_written_model_keeps_the_state(tmp_path: Path) -> None:
    case = CASES["counters beside a constant"]
    module, expected = calls(case)
    tvm_nnef.convert(module, tmp_path / "model", example_inputs=expected[0][0])
    module(expected[0][0])  # what was converted has the values of then
    text = (tmp_path / "model" / "main.sknd").read_text()
    assert text.count("math.iden(") >= 2
    assert "@update" in text
    executable = tvm_nnef.build(tmp_path / "model", progress=False)
    for x, outputs, _ in expected:
        close(executable(x), outputs)
    assert [name.rpartition(".")[2] for name in executable.state] == ["n", "total"]


def test_what_does_not_change_is_a_constant() -> None:
    norms = nn.BatchNorm2d(3).eval()
    model = tvm_nnef.convert(norms, example_inputs=torch.rand(1, 3, 2, 2))
    assert not tvm_nnef.compose(model).updates


class Selecting(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0] * 2


@pytest.mark.parametrize("before", ["converted", "decomposed"])
def test_a_program_is_converted_again(before: str) -> None:
    program = torch.export.export(Selecting(), (torch.ones(4),))
    if before == "decomposed":
        program.run_decompositions({})
    x = np.array([1, -1, 2, 0], np.float32)
    for _ in range(3):
        model = tvm_nnef.convert(program, bounds=4)
        np.testing.assert_array_equal(tvm_nnef.evaluate(model, x)[0], [2, 4])


def test_batch_norms_of_training_with_given_statistics() -> None:
    def forward(m: Any, x: Any) -> Any:
        return nn.functional.batch_norm(x, m.mean.clone(), m.var.clone(), training=True)

    module = Module(forward, mean=zeros(3), var=torch.ones(3))
    x = torch.randn(4, 3, 5)
    model = tvm_nnef.convert(module, example_inputs=x)
    close(tvm_nnef.evaluate(model, x.numpy()), [module(x).numpy()])


def test_results_keep_their_dtype() -> None:
    module = Module(lambda m, x: x.sum(1))
    x = torch.rand(2, 3).half()
    close(tvm_nnef.evaluate(tvm_nnef.convert(module, example_inputs=x), x.numpy()),
          [module(x).numpy()])  # fmt: skip


def replaced(m: Any, x: Any) -> Any:
    m.n = m.n + x
    return m.n * 2


def test_a_state_of_another_dtype_is_an_error() -> None:
    message = r"a call changes the state 'n' from int64\[3\] to float32\[3\]"
    module = Module(replaced, n=zeros(3, dtype=torch.int64))
    with pytest.raises(tvm_nnef.UnsupportedError, match=message):
        tvm_nnef.convert(module, example_inputs=torch.rand(3))


@pytest.mark.parametrize("option", [{"input_shapes": {"total": (3,)}}, {"dtypes": {"n": "int32"}}])
def test_a_state_is_not_an_input(option: dict[str, Any]) -> None:
    module, _ = calls(CASES["counters beside a constant"])
    with pytest.raises(tvm_nnef.NnefError, match="is not an input, but state of the model"):
        tvm_nnef.convert(module, example_inputs=torch.rand(2, 3), **option)

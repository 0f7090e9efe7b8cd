"""``tract_core_scan``: recurrences over parts of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import NnefError

X = np.arange(24, dtype=np.float32).reshape(3, 4, 2)


def document(pace: int, outputs: str, more: str = "skip = 0, reset_every_turn = false") -> str:
    names = ", ".join(f"y{number}" for number in range(outputs.count("(")))
    target = f"({names})" if "," in names else names
    return f"""version 1.0;
extension tract_registry tract_core;
fragment step(s: tensor<scalar>, h: tensor<scalar>, k: tensor<scalar>)
-> (n: tensor<scalar>, m: tensor<scalar>)
{{ n = s * k + h; m = n * 2.0; }}
graph g(x, i, k) -> ({names}) {{
  x = external(shape = [3, 4, 2]);
  i = external(shape = [3, {abs(pace)}, 2]);
  k = external(shape = [1, 1, 2]);
  {target} = tract_core_scan(
    body = "step", scan = [("s", x, 1, {pace})], full = [("k", k)], state = [("h", i, "n")],
    output = [{outputs}], {more});
}}"""


# What tract 0.23 gives for the first item of the batch.
CASES = {
    (1, '("n", "full", 1, 1), ("n", "last", 1, 1)'):
        [[[1, 3], [5, 9], [13, 19], [25, 33]], [[25, 33]]],
    (1, '("m", "full", 1, 1)'): [[[2, 6], [10, 18], [26, 38], [50, 66]]],
    (-1, '("n", "full", 1, -1), ("m", "last", 1, -1)'):
        [[[25, 33], [25, 31], [21, 25], [13, 15]], [[50, 66]]],
    (-1, '("n", "full", 1, 1)'): [[[13, 15], [21, 25], [25, 31], [25, 33]]],
    (2, '("n", "full", 1, 2)'): [[[1, 3], [5, 7], [9, 13], [17, 21]]],
}  # fmt: skip


@pytest.mark.parametrize(("pace", "outputs"), CASES)
def test_scan(pace: int, outputs: str) -> None:
    model = tvm_nnef.convert(document(pace, outputs), vendor="tract")
    start = np.ones((3, abs(pace), 2), np.float32)
    found = tvm_nnef.evaluate(model, X, start, np.full((1, 1, 2), 2, np.float32))
    for each, expected in zip(found, CASES[pace, outputs], strict=True):
        np.testing.assert_array_equal(each[0], expected)


RNN = """version 1.0;
extension tract_registry tract_core;
extension tract_symbol B;
fragment loop(previous: tensor<scalar>, part: tensor<scalar>, w: tensor<scalar>)
-> (next: tensor<scalar>) { next = tanh(part + matmul(previous, w, transposeB = true)); }
fragment rnn(x: tensor<scalar>, w: tensor<scalar>, pace: integer)
-> (every: tensor<scalar>, last: tensor<scalar>)
{
  (every, last) = tract_core_scan(
    body = "loop", scan = [("part", x, 0, pace)], full = [("w", w)],
    state = [("previous", 0.0 * slice(x, axes = [0], begin = [0], end = [1]), "next")],
    output = [("next", "full", 0, pace), ("next", "last", 0, pace)]);
}
graph g(x, w) -> (y, z)
{
  x = external(shape = [6, B, 4]); w = external(shape = [1, 4, 4]);
  (y, z) = rnn(x, w, pace = 1);
}"""


def test_a_recurrent_network_with_a_dynamic_batch() -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(6, 5, 4)).astype(np.float32)
    w = random.normal(size=(1, 4, 4)).astype(np.float32)
    model = tvm_nnef.convert(RNN, vendor="tract", bounds={"B": 8})
    y, z = tvm_nnef.evaluate(model, x, w)
    state, states = np.zeros((5, 4)), []
    for part in x:
        state = np.tanh(part + state @ w[0].T)
        states.append(state)
    np.testing.assert_allclose(y, states, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z, states[-1:], rtol=1e-5, atol=1e-6)


OUTPUT = '("m", "last", 1, 1)'
FAULTS = {
    "pace": (document(3, OUTPUT), "a pace of 3 for a dimension of 4"),
    "backwards": (document(-2, OUTPUT), "a pace of -2"),
    "output": (document(1, '("m", "first", 1, 1)'), "'first' is not an output"),
    "result": (document(1, '("q", "last", 1, 1)'), "'step' has no 'q'"),
    "skip": (document(1, OUTPUT, "skip = 1"), "'skip' of 'tract_core_scan' cannot be converted"),
    "reset": (document(1, OUTPUT, "reset_every_turn = true"), "'reset_every_turn'"),
    "body": (document(1, OUTPUT).replace('"step"', '"stap"'), "no fragment 'stap' with a body"),
    "rows": (document(1, OUTPUT).replace('("k", k)', "k"), "array of tuples of 2 items"),
    "axis": (document(1, OUTPUT).replace("x, 1, 1", "x, 3, 1"), "is not static"),
    "name": (document(1, OUTPUT).replace('body = "step"', "body = step"), "in quotation marks"),
    "arguments": (document(1, OUTPUT).replace('body = "step",', ""), "are not complete"),
    "dynamic": (RNN.replace("[6, B, 4]", "[B, 5, 4]").replace("slice(x, axes = [0], begin = [0], "
                                                             "end = [1])", "x"), "is not static"),
    "recursion": (document(1, OUTPUT).replace("m = n * 2.0;", """
      m = tract_core_scan(body = "step", scan = [("s", s, 1, 1)], full = [("k", k)],
                          state = [("h", h, "n")], output = [("m", "full", 1, 1)]);"""),
      "more than 500 times"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_scans(fault: str) -> None:
    text, message = FAULTS[fault]
    with pytest.raises(NnefError, match=message) as caught:
        tvm_nnef.convert(text, vendor="tract", bounds={"B": 8} if "symbol B" in text else None)
    assert all(each.span is not None and each.hint for each in caught.value.diagnostics)

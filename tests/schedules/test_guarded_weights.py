"""Convolutions whose weights are infinite or NaN here and there: padding is left out.

Where a window lies outside of the data nothing is multiplied, so that what a weight is there does
not matter. Formulas and ``nn.conv`` agree in that, and run in the same loops.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

import tvm_nnef


@dataclass(frozen=True)
class Case:
    """Dimensions of the data, outputs, and per dimension of space a window."""

    data: tuple[int, ...]
    outputs: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    groups: int = 1
    last: bool = False
    constant: bool = False

    @property
    def weights(self):
        return (self.outputs, self.data[1] // self.groups, *self.size)

    @property
    def extents(self):
        windows = zip(
            self.data[2:], self.size, self.stride, self.dilation, self.before, strict=True
        )
        return [(e + 2 * b - (n - 1) * d - 1) // s + 1 for e, n, s, d, b in windows]

    @property
    def windows(self):
        return list(zip(self.stride, self.dilation, self.before, strict=True))


CASES = {
    "dense": Case((2, 5, 9, 23), 19, (3, 3), (1, 1), (1, 1), (1, 1)),
    "strided": Case((1, 6, 13, 17), 16, (3, 2), (2, 3), (1, 1), (1, 1)),
    "dilated": Case((1, 4, 11, 14), 8, (3, 3), (1, 2), (2, 3), (2, 3)),
    "few_outputs": Case((1, 7, 10, 37), 3, (3, 3), (1, 1), (1, 1), (1, 1)),
    "narrow": Case((1, 6, 19, 5), 17, (3, 3), (1, 1), (1, 1), (1, 1)),
    "depthwise": Case((1, 6, 21, 22), 6, (3, 3), (1, 1), (1, 1), (1, 1), groups=6),
    "depthwise_strided": Case((2, 5, 20, 35), 5, (5, 3), (2, 2), (1, 1), (2, 1), groups=5),
    "multiplied": Case((1, 4, 8, 19), 8, (3, 3), (1, 1), (1, 1), (1, 1), groups=4),
    "grouped": Case((1, 8, 9, 20), 12, (3, 3), (1, 1), (1, 1), (1, 1), groups=4),
    "one_output": Case((1, 24, 9, 20), 12, (3, 3), (1, 1), (1, 1), (1, 1), groups=12),
    "long": Case((1, 3, 29), 9, (13,), (1,), (1,), (6,)),
    "line": Case((3, 5, 41), 7, (5,), (1,), (1,), (2,)),
    "volume": Case((1, 3, 5, 6, 9), 8, (3, 2, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "channels_last": Case((1, 5, 9, 12), 16, (3, 3), (1, 1), (1, 1), (1, 1), last=True),
    "constant": Case((1, 5, 9, 12), 16, (3, 3), (1, 1), (1, 1), (1, 1), constant=True),
    "constant_depthwise": Case(
        (1, 5, 9, 40), 5, (3, 3), (1, 1), (1, 1), (1, 1), groups=5, constant=True
    ),
}  # fmt: skip


def formula(name, case):
    """An operator that is the convolution of a case."""
    rank, depth = len(case.size), case.weights[1]
    positions = [
        f"|{s} * i{n} + {d} * k{n} - {b}|" for n, (s, d, b) in enumerate(case.windows)
    ]  # fmt: skip
    steps = [f"k{n}" for n in range(rank)]
    axes = [f"i{n}" for n in range(rank)]
    channel = "d" if case.groups == 1 else f"z / {case.outputs // case.groups} * {depth} + d"
    if case.last:
        data, weights = ["b", *positions, channel], ["z", *steps, "d"]
        result, shape = ["b", *axes, "z"], (case.data[0], *case.extents, case.outputs)
    else:
        data, weights = ["b", channel, *positions], ["z", "d", *steps]
        result, shape = ["b", "z", *axes], (case.data[0], case.outputs, *case.extents)
    bounds = [f"b < {case.data[0]}", f"z < {case.outputs}", f"d < {depth}"]
    bounds += [f"i{n} < {extent}" for n, extent in enumerate(case.extents)]
    bounds += [f"k{n} < {size}" for n, size in enumerate(case.size)]
    return (
        f"operator {name} {{ @input {{ x: real[xs..({rank + 2})]; f: real[fs..({rank + 2})]; }}\n"
        f"  @output {{ y: real[{', '.join(map(str, shape))}]; }}\n"
        f"  @lower {{ y[{', '.join(result)}] += x[{', '.join(data)}] * f[{', '.join(weights)}], "
        f"{', '.join(bounds)}; }} }}\n"
    )


def arrays(case, seed):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(case.data).astype("float32")
    w = generator.standard_normal(case.weights).astype("float32")
    w[(slice(None), slice(None), *[0] * len(case.size))] = np.inf
    w[(0, slice(None), *[-1] * len(case.size))] = np.nan
    return x, w


def convolved(case, x, w):
    """Step by step, for those elements alone whose data lie inside."""
    total = np.zeros((case.data[0], case.outputs, *case.extents), "float32")
    channels, outputs = case.data[1] // case.groups, case.outputs // case.groups
    for group, step in itertools.product(
        range(case.groups), itertools.product(*map(range, case.size))
    ):
        read, written = [], []
        for k, (s, d, b), extent, count in zip(
            step, case.windows, case.data[2:], case.extents, strict=True
        ):
            inside = [i for i in range(count) if 0 <= s * i + d * k - b < extent]
            written.append(inside)
            read.append([s * i + d * k - b for i in inside])
        own = range(group * outputs, (group + 1) * outputs)
        data = x[
            np.ix_(range(case.data[0]), range(group * channels, (group + 1) * channels), *read)
        ]
        weights = w[(slice(group * outputs, (group + 1) * outputs), slice(None), *step)]
        total[np.ix_(range(case.data[0]), own, *written)] += np.einsum(
            "nc...,oc->no...", data, weights
        )
    return total


def moved(case, array):
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if case.last else array


@pytest.mark.slow
def test_nothing_outside_of_the_data_is_multiplied(tmp_path):
    given, inputs, variables, results, lines = {}, [], [], [], []
    for number, (name, case) in enumerate(CASES.items()):
        given[name] = arrays(case, number)
        x, w = (moved(case, array) for array in given[name])
        inputs.append(f"x_{name}: real{list(x.shape)};")
        (variables if case.constant else inputs).append(f"w_{name}: real{list(w.shape)};")
        results += [f"y_{name}: real[~..];", f"z_{name}: real[~..];"]
        form = ", data_format='NXC', filter_format='NXC'" if case.last else ""
        lines.append(f"y_{name} = {name}(x_{name}, w_{name});")
        lines.append(
            f"z_{name} = nn.conv{{stride={list(case.stride)}, dilation={list(case.dilation)}, "
            f"padding={[*case.before, *case.before]}, groups={case.groups}{form}}}"
            f"(x_{name}, w_{name});"
        )
    text = (
        "import nn;\n" + "".join(formula(*item) for item in CASES.items())
        + f"graph G {{ @input {{ {' '.join(inputs)} }} @variable {{ {' '.join(variables)} }}\n"
        + f"@output {{ {' '.join(results)} }} @compose {{ {' '.join(lines)} }} }}"
    )  # fmt: skip
    constants = {f"main.G.w_{n}": given[n][1] for n, c in CASES.items() if c.constant}
    loaded = tvm_nnef.load_model(text, variables=constants)
    operands = [
        moved(case, array)
        for name, case in CASES.items()
        for array in given[name][: 1 if case.constant else 2]
    ]
    executable = tvm_nnef.build(loaded, progress=False, dump_dir=tmp_path)
    assert "cpu.fallback" not in (tmp_path / "kernels.txt").read_text()
    found = iter(executable(*operands))
    for name, case in CASES.items():
        expected = moved(case, convolved(case, *given[name]))
        assert np.isfinite(expected).any() and not np.isfinite(expected).all()
        for each in (next(found), next(found)):
            np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-4, err_msg=name)


DYNAMIC = {
    # the channel that is read, the shape of the weights, and the sizes without those of space
    "dense": ("d", "16,6,3,3", Case((2, 6, 1, 1), 16, (3, 3), (1, 1), (1, 1), (1, 1))),
    "depthwise": ("z", "6,1,3,3", Case((2, 6, 1, 1), 6, (3, 3), (1, 1), (1, 1), (1, 1), 6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DYNAMIC)
def test_nothing_outside_of_data_of_any_height_and_width_is_multiplied(name):
    channel, weights, case = DYNAMIC[name]
    loaded = tvm_nnef.load_model(
        f"""operator conv {{ @input {{ x: real[n,c,h,v]; f: real[o,e,p,q]; }}
          @output {{ y: real[n,o,h,v]; }}
          @lower {{ y[b,z,i,j] += x[b,{channel},|i + k - 1|,|j + l - 1|] * f[z,d,k,l],
            b < n, z < o, i < h, j < v, d < e, k < p, l < q; }} }}
        graph G {{ @input {{ x: real[n|4,6,h|64,v|64]; w: real[{weights}]; }}
          @output {{ y: real[~,~,~,~]; }} @compose {{ y = conv(x, w); }} }}"""
    )
    executable = tvm_nnef.build(loaded, progress=False)
    for space in ((1, 1), (9, 9), (8, 37), (30, 7)):
        own = replace(case, data=(2, 6, *space))
        x, w = arrays(own, sum(space))
        expected = convolved(own, x, w)
        np.testing.assert_allclose(executable(x, w)[0], expected, rtol=1e-4, atol=1e-4)

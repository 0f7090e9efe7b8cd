"""Formulas made at random, near to what is raised: none is taken for an operator that it is not.

Products of matrices, convolutions and poolings in any order of dimensions, and changed a little: a
part of a dimension, an index twice, a shift, a dimension or an index that nobody needs. Values are
small whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import tvm_nnef

EXTENTS = [1, 1, 2, 3, 5, 8, 13, 17]
MANY = 16
"""Formulas in one model: it is the building that takes time."""


class Formula:
    """Axes and steps by their extents, operands as lists of ``(index, lowest, highest)``."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.axes, self.steps = {}, {}
        make = self.random.choice([self.product, self.product, self.windows, self.windows])
        self.operands = make()
        for operand in self.operands:
            if self.random.random() < 0.5:
                self.random.shuffle(operand)
        if self.random.random() < 0.4:
            self.axes = dict(self.random.sample(list(self.axes.items()), len(self.axes)))
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            self.change(self.random.choice(self.operands))

    def axis(self, extent=None):
        return self.named(self.axes, "i", extent)

    def step(self, extent=None):
        return self.named(self.steps, "k", extent)

    def named(self, those, letter, extent):
        extent = extent or self.random.choice(EXTENTS)
        name = f"{letter}{len(those)}"
        those[name] = extent
        return name, 0, extent - 1

    def product(self):
        both, rows, columns = (
            [self.axis() for _ in range(self.random.choice(counts))]
            for counts in ([0, 0, 1], [1, 1, 2, 0], [1, 1, 2, 0])
        )
        if not self.axes:
            rows = [self.axis()]
        steps = [self.step() for _ in range(self.random.choice([1, 1, 2]))]
        return [[*both, *rows, *steps], [*both, *columns, *steps]]

    def windows(self):
        batch, output = self.axis(self.random.choice([1, 2])), self.axis()
        channel = self.random.choice([output, None]) or self.step()
        moved, steps = [], []
        for _ in range(self.random.choice([1, 2, 2])):
            axis, last = self.axis()[0::2]
            step, end = self.step(self.random.choice([1, 2, 3, 4]))[0::2]
            stride, dilation, before = (self.random.choice(c) for c in ([1, 2, 3], [1, 2], [0, 1]))
            if self.random.random() < 0.2:
                index = f"({axis} + {before} - {step}) / {stride}"
                moved.append((index, (before - end) // stride, (last + before) // stride))
            else:
                index = f"{stride} * {axis} + {dilation} * {step} - {before}"
                moved.append((index, -before, stride * last + dilation * end - before))
            steps.append((step, 0, end))
        weights = [output, *([channel] if channel is not output else []), *steps]
        data = [batch, channel, *moved]
        return [data, weights] if self.random.random() < 0.8 else [data]

    def change(self, operand):
        place = self.random.randrange(len(operand))
        index, low, high = operand[place]
        other = self.random.choice([*self.axes.items(), *self.steps.items()])
        match self.random.randrange(6):
            case 0:
                operand[place] = (index, low, high + 2)
            case 1:
                operand[place] = (other[0], 0, other[1] - 1)
            case 2:
                operand[place] = (f"{index} + 1", low + 1, high + 1)
            case 3:
                operand.insert(place, ("0", 0, 0))
            case 4:
                self.step(2)
            case _:
                operand[place] = (f"{high} - ({index})", 0, high - low)

    def text(self, name):
        shapes = [[max(1, high + 1) for _, _, high in operand] for operand in self.operands]
        loads = []
        for number, operand in enumerate(self.operands):
            indices = [f"|{i}|" if low < 0 or "/" in i else i for i, low, _ in operand]
            loads.append(f"x{number}[{','.join(indices)}{',' * (len(indices) == 1)}]")
        combine = "+=" if len(loads) > 1 else self.random.choice(["+=", ">=", "<="])
        bounds = ", ".join(f"{n} < {e}" for n, e in {**self.axes, **self.steps}.items())
        result = ",".join(self.axes) + "," * (len(self.axes) == 1)
        inputs = " ".join(f"x{n}: real{shape};" for n, shape in enumerate(shapes))
        text = (
            f"operator {name} {{ @input {{ {inputs} }}\n"
            f"  @output {{ y: real{[*self.axes.values()]}; }}\n"
            f"  @lower {{ y[{result}] {combine} {' * '.join(loads)}, {bounds}; }} }}\n"
        )
        return text, shapes


def model(seed):
    """A model of many formulas, its variables, and the arrays of its inputs."""
    generator = np.random.default_rng(seed)
    text, variables, arrays, declared, lines = "", {}, [], {"input": [], "variable": []}, []
    for number in range(MANY):
        formula = Formula(MANY * seed + number)
        own, shapes = formula.text(f"f{number}")
        names = [f"a{number}_{n}" for n in range(len(shapes))]
        constant = formula.random.choice([*names[1:], None])
        for name, shape in zip(names, shapes, strict=True):
            values = generator.integers(-3, 4, shape).astype("float32")
            declared["variable" if name == constant else "input"].append(f"{name}: real{shape};")
            if name == constant:
                variables[f"main.G.{name}"] = values
            else:
                arrays.append(values)
        text += own
        lines.append(f"y{number} = f{number}({', '.join(names)});")
    blocks = "".join(f"@{kind} {{ {' '.join(d)} }}\n" for kind, d in declared.items() if d)
    outputs = " ".join(f"y{number}: real[~..];" for number in range(MANY))
    graph = f"graph G {{ {blocks} @output {{ {outputs} }}\n@compose {{ {' '.join(lines)} }} }}"
    return text + graph, variables, arrays


@pytest.mark.parametrize("seed", range(2))
def test_random_formulas_compute_what_the_evaluator_does(seed):
    text, variables, arrays = model(seed)
    loaded = tvm_nnef.load_model(text, variables=variables)
    found = tvm_nnef.build(loaded, progress=False)(*arrays)
    expected = tvm_nnef.evaluate(loaded, *arrays)
    for number, pair in enumerate(itertools.zip_longest(found, expected)):
        np.testing.assert_array_equal(*pair, err_msg=f"f{number} of\n{text}")

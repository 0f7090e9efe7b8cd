"""Operators with ``@lower`` made at random, for ``scripts/fuzz_formulas.py``."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SIZES = (1, 1, 2, 3, 5, 8, 13, 17)


@dataclass(frozen=True)
class Operator:
    """An operator ``f`` as text without its name, and its tensors by name: type and dimensions.

    A dimension is a number, or the name of one in ``sizes``.
    """

    body: str
    inputs: dict[str, tuple[str, tuple[str | int, ...]]]
    outputs: dict[str, str]
    sizes: dict[str, int] = field(default_factory=dict)


def operator(seed: int) -> Operator:
    """The operator of a seed."""
    source = random.Random(seed)
    choice = source.random()
    if choice < 0.4:
        return contraction(source)
    return _Indices(source).operator() if choice < 0.6 else _Formula(source).operator()


# --- products of matrices, convolutions and poolings, changed a little


class _Contraction:
    """Axes and steps by their dimensions, operands as lists of ``(index, lowest, highest)``.

    Near to what is raised to an operator of Relax: a part of a dimension, an index twice, a shift,
    a dimension or an index that nothing needs.
    """

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.axes: dict[str, int] = {}
        self.steps: dict[str, int] = {}
        make = self.random.choice([self.product, self.windows, self.groups])
        self.operands = make()
        for operand in self.operands:
            if self.random.random() < 0.5:
                self.random.shuffle(operand)
        if self.random.random() < 0.4:
            self.axes = dict(self.random.sample(list(self.axes.items()), len(self.axes)))
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            self.change(self.random.choice(self.operands))

    def axis(self, extent: int | None = None) -> tuple[str, int, int]:
        return self.named(self.axes, "i", extent)

    def step(self, extent: int | None = None) -> tuple[str, int, int]:
        return self.named(self.steps, "k", extent)

    def named(self, those: dict[str, int], letter: str, extent: int | None) -> tuple[str, int, int]:
        extent = extent or self.random.choice(SIZES)
        name = f"{letter}{len(those)}"
        those[name] = extent
        return name, 0, extent - 1

    def product(self) -> list[list[tuple[str, int, int]]]:
        both, rows, columns = (
            [self.axis() for _ in range(self.random.choice(counts))]
            for counts in ([0, 0, 1], [1, 1, 2, 0], [1, 1, 2, 0])
        )
        if not self.axes:
            rows = [self.axis()]
        steps = [self.step() for _ in range(self.random.choice([1, 1, 2]))]
        return [[*both, *rows, *steps], [*both, *columns, *steps]]

    def windows(self) -> list[list[tuple[str, int, int]]]:
        batch, output = self.axis(self.random.choice([1, 2])), self.axis()
        channel = self.random.choice([output, None]) or self.step()
        moved, steps = self.moving()
        weights = [output, *([channel] if channel is not output else []), *steps]
        data = [batch, channel, *moved]
        return [data, weights] if self.random.random() < 0.8 else [data]

    def groups(self) -> list[list[tuple[str, int, int]]]:
        """A convolution of groups of channels, perhaps with more channels or outputs."""
        groups, outputs, count = (self.random.choice(some) for some in ([2, 3], [1, 2, 3], [1, 2]))
        batch, output = self.axis(self.random.choice([1, 2])), self.axis(groups * outputs)
        inner = self.step(count) if count > 1 else ("0", 0, 0)
        channel = (f"{output[0]} / {outputs} * {count} + {inner[0]}", 0, groups * count - 1)
        more = [self.step(self.random.choice([2, 3]))] if self.random.random() < 0.5 else []
        others = [self.axis(self.random.choice([2, 3]))] if self.random.random() < 0.3 else []
        moved, steps = self.moving()
        data, weights = [batch, *more, channel, *moved], [*others, output, inner, *more, *steps]
        for operand in (data, weights):
            if self.random.random() < 0.5:
                self.random.shuffle(operand)
        return [data, weights]

    def moving(self) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
        """Windows over dimensions of the data, and the steps in them."""
        moved, steps = [], []
        for _ in range(self.random.choice([1, 2, 2])):
            axis, _, last = self.axis()
            step, _, end = self.step(self.random.choice([1, 2, 3, 4]))
            stride = self.random.choice([1, 2, 3])
            dilation, before = self.random.choice([1, 2]), self.random.choice([0, 1])
            if self.random.random() < 0.2:
                index = f"({axis} + {before} - {step}) / {stride}"
                moved.append((index, (before - end) // stride, (last + before) // stride))
            else:
                index = f"{stride} * {axis} + {dilation} * {step} - {before}"
                moved.append((index, -before, stride * last + dilation * end - before))
            steps.append((step, 0, end))
        return moved, steps

    def change(self, operand: list[tuple[str, int, int]]) -> None:
        position = self.random.randrange(len(operand))
        index, low, high = operand[position]
        other = self.random.choice([*self.axes.items(), *self.steps.items()])
        match self.random.randrange(6):
            case 0:
                operand[position] = (index, low, high + 2)
            case 1:
                operand[position] = (other[0], 0, other[1] - 1)
            case 2:
                operand[position] = (f"{index} + 1", low + 1, high + 1)
            case 3:
                operand.insert(position, ("0", 0, 0))
            case 4:
                self.step(2)
            case _:
                operand[position] = (f"{high} - ({index})", 0, high - low)


def contraction(source: random.Random) -> Operator:
    """An operator that is one contraction."""
    made = _Contraction(source)
    shapes = [[max(1, high + 1) for _, _, high in operand] for operand in made.operands]
    loads = []
    for number, operand in enumerate(made.operands):
        indices = [f"|{i}|" if low < 0 or i.startswith("(") else i for i, low, _ in operand]
        loads.append(f"x{number}[{_listed(indices)}]")
    combine = "+=" if len(loads) > 1 else source.choice(["+=", ">=", "<="])
    bounds = ", ".join(f"{n} < {e}" for n, e in {**made.axes, **made.steps}.items())
    declared = " ".join(f"x{n}: real{shape};" for n, shape in enumerate(shapes))
    body = (
        f"{{ @input {{ {declared} }}\n"
        f"  @output {{ y: real{[*made.axes.values()]}; }}\n"
        f"  @lower {{ y[{_listed(made.axes)}] {combine} {' * '.join(loads)}, {bounds}; }} }}\n"
    )
    inputs = {f"x{n}": ("real", tuple(shape)) for n, shape in enumerate(shapes)}
    return Operator(body, inputs, {"y": "real"})


def _listed(indices: object) -> str:
    items = [*indices]  # type: ignore[misc]
    return ",".join(items) + "," * (len(items) == 1)


# --- anything that a formula can say

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_UPDATES = {
    "real": ("+=", "+=", ">=", "<=", ":="),
    "int": ("+=", "*=", ">=", "<=", ":="),
    "bool": ("&=", "|=", ":="),
}


class _Formula:
    """Statements over a few tensors: indices, guards, conditions, selects, locals, updates."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.sizes = {f"n{k}": source.choice(SIZES) for k in range(source.choice([1, 2, 2, 3]))}
        self.inputs: dict[str, tuple[str, tuple[str | int, ...]]] = {}
        for number, kind in enumerate(("real", "int", *source.choices(_KINDS, k=2))):
            self.inputs[f"x{number}"] = (kind, self.shape())
        used = {size for _, shape in self.inputs.values() for size in shape}
        missing = tuple(name for name in self.sizes if name not in used)
        if missing:
            self.inputs["t"] = ("real", missing)
        self.readable = dict(self.inputs)
        self.loops: dict[str, str | int] = {}
        self.locals: dict[str, str] = {}

    def shape(self) -> tuple[str | int, ...]:
        names = [*self.sizes, *self.sizes, self.random.choice((1, 3, 4))]
        return tuple(self.random.choices(names, k=self.random.choice([0, 1, 1, 2, 2, 3])))

    def operator(self) -> Operator:
        outputs, statements = {}, []
        for number in range(self.random.choice([1, 1, 2])):
            name, kind, shape = f"y{number}", self.random.choice(_KINDS), self.shape()
            outputs[name] = (kind, shape)
            for _ in range(self.random.choice([1, 1, 2])):
                statements.append(self.statement(name, kind, shape, first=not statements
                                                 or name not in self.readable))  # fmt: skip
                self.readable[name] = (kind, shape)
        body = (
            f"{{ @input {{ {_declared(self.inputs)} }}\n  @output {{ {_declared(outputs)} }}\n"
            f"  @lower {{\n    " + "\n    ".join(statements) + "\n  } }\n"
        )
        kinds = {name: kind for name, (kind, _) in outputs.items()}
        return Operator(body, self.inputs, kinds, self.sizes)

    def statement(self, name: str, kind: str, shape: tuple[str | int, ...], first: bool) -> str:
        self.loops, self.locals = {}, {}
        target = [self.written(size) for size in shape]
        combine = "=" if first else self.random.choice(_UPDATES[kind])
        if combine not in ("=", ":=") or self.random.random() < 0.1:
            for _ in range(self.random.choice([0, 1, 1, 2])):
                self.loop(self.random.choice([*self.sizes, 2, 3]))
        if combine == ":=" and self.random.random() < 0.3:
            target = [self.index(size) for size in shape]
        locals_ = []
        for number in range(self.random.choice([0, 0, 0, 1, 2])):
            type_ = self.random.choice(("int", "real"))
            locals_.append(f"v{number} = {self.value(type_, 2)}")
            self.locals[f"v{number}"] = type_
        value = self.value(kind, 3)
        parts = [f"{name}[{_listed(target)}] {combine} {value}"]
        parts += [f"{index} < {size}" for index, size in self.loops.items()]
        text = ", ".join([*locals_, *parts])
        if self.random.random() < 0.25 and self.loops:
            text += f" | {self.boolean(2)}"
        return text + ";"

    def loop(self, size: str | int) -> str:
        name = f"i{len(self.loops)}"
        self.loops[name] = size
        return name

    def written(self, size: str | int) -> str:
        """An index of the left side, that writes each element at most once."""
        name = self.loop(size)
        match self.random.randrange(8):
            case 0:
                return f"{size} - 1 - {name}"
            case 1:
                return f"|{name} + {self.random.choice((1, 2))}|"
            case 2:
                return f"|2 * {name}|"
        return name

    # -- expressions

    def value(self, kind: str, depth: int) -> str:
        return {"real": self.real, "int": self.integer, "bool": self.boolean}[kind](depth)

    def index(self, size: str | int) -> str:
        """An index of a dimension, in bounds or guarded."""
        fitting = [name for name, other in self.loops.items() if other == size]
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3 | 4 | 5 if fitting:
                return self.random.choice(fitting)
            case 6 if fitting:
                return f"{size} - 1 - {self.random.choice(fitting)}"
            case 7 | 8:
                return f"|{self.integer(2)}|"
            case 9:
                return f"|{self.integer(2)} <> 0 : {size} - 1|"
            case 10:
                return f"({self.integer(2)}) % {size}"
        return "0"

    def load(self, kind: str) -> str | None:
        fitting = [(name, shape) for name, (other, shape) in self.readable.items() if other == kind]
        if not fitting:
            return None
        name, shape = self.random.choice(fitting)
        return f"{name}[{_listed([self.index(size) for size in shape])}]"

    def named(self, kind: str) -> str | None:
        fitting = [name for name, other in self.locals.items() if other == kind]
        return self.random.choice(fitting) if fitting else None

    def integer(self, depth: int) -> str:
        choice = self.random.randrange(20)
        left, right = ("", "") if depth <= 0 else (self.integer(depth - 1), self.integer(depth - 1))
        if depth <= 0 or choice < 6:
            if self.loops and self.random.random() < 0.6:
                return self.random.choice([*self.loops])
            if self.random.random() < 0.3:
                return self.random.choice([*self.sizes])
            large = (100000, 65537, 2147483647, 46341)
            number = self.random.choice(large if self.random.random() < 0.1 else (0, 1, 2, 3, 7))
            return self.named("int") or str(number)
        match choice:
            case 6 | 7 | 8:
                return self.load("int") or left
            case 9 | 10 | 11:
                return f"({left} + {right})"
            case 12:
                return f"({left} - {right})"
            case 13 | 14:
                return f"({left} * {self.random.choice((right, '3', '100000', '-2'))})"
            case 15:
                return f"({left} / {self.random.choice((right, '3', '2'))})"
            case 16:
                return f"({left} % {self.random.choice((right, '7', '99991'))})"
            case 17:
                return f"({left} {self.random.choice(('<<', '>>'))} {right})"
            case 18:
                return f"({self.boolean(depth - 1)} ? {left} : {right})"
        return self.random.choice((f"int({self.boolean(depth - 1)})", f"(-{left})"))

    def boolean(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.load("bool") or "true"
        match self.random.randrange(6):
            case 0 | 1 | 2:
                return f"({self.integer(depth - 1)} {self.comparison()} {self.integer(depth - 1)})"
            case 3:
                return f"({self.real(depth - 1)} {self.comparison()} {self.real(depth - 1)})"
            case 4:
                joined = self.random.choice(("&&", "||"))
                return f"({self.boolean(depth - 1)} {joined} {self.boolean(depth - 1)})"
        return f"!{self.boolean(depth - 1)}"

    def comparison(self) -> str:
        return self.random.choice(_COMPARISONS)

    def real(self, depth: int) -> str:
        if depth <= 0:
            return self.load("real") or "1.0"
        left, right = self.real(depth - 1), self.real(depth - 1)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                return self.load("real") or left
            case 3:
                return f"real({self.integer(depth - 1)})"
            case 4 | 5:
                return f"({left} + {right})"
            case 6:
                return f"({left} - {right})"
            case 7 | 8:
                return f"({left} * {self.random.choice((right, '0.5'))})"
            case 9:
                return f"({left} {self.random.choice(('<<', '>>'))} {right})"
            case 10:
                return f"({self.boolean(depth - 1)} ? {left} : {right})"
        return self.named("real") or "2.0"


# --- quotients, remainders, minima and choices as indices of a matrix


class _Indices:
    """One load whose indices are arithmetic on loop indices, brought into bounds at the end."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.sizes = {"n": source.choice((1, 2, 4, 8)), "m": source.choice((4, 8, 16, 17))}

    def operator(self) -> Operator:
        rows, columns = (self.bounded(size) for size in ("n", "m"))
        rows = self.random.choice((rows, "i", "0"))
        body = (
            "{ @input { x: real[n,m]; } @output { y: real[n,m]; }\n"
            f"  @lower {{ y[i,j] = x[{rows}, {columns}], i < n, j < m; }} }}\n"
        )
        return Operator(body, {"x": ("real", ("n", "m"))}, {"y": "real"}, self.sizes)

    def bounded(self, size: str) -> str:
        index = self.index(self.random.choice((1, 2, 3, 4)))
        forms = (f"({index}) % {size}", f"({index}) % {size}", f"|{index}|",
                 f"|{index} <> 0 : {size} - 1|")  # fmt: skip
        return self.random.choice(forms)

    def index(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.1:
            return self.random.choice(("i", "j", "j", "n", str(self.random.choice(_CONSTANTS))))
        left, right = self.index(depth - 1), self.index(depth - 1)
        match self.random.randrange(9):
            case 0 | 1:
                return f"({left} + {right})"
            case 2 | 3:
                return f"({left} - {right})"
            case 4:
                return f"({self.random.choice(_CONSTANTS)} * {left})"
            case 5:
                return f"({left} / {self.random.choice(_DIVISORS)})"
            case 6 | 7:
                return f"({left} % {self.random.choice(_DIVISORS)})"
        return f"({left} {self.random.choice(_COMPARISONS)} {right} ? {left} : {right})"


_CONSTANTS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 31, -1, -2, -3)
_DIVISORS = (2, 3, 4, 5, 8, 16, -2, -3, -4, "n", "m")


_KINDS = ("real", "int", "bool")


def _declared(tensors: dict[str, tuple[str, tuple[str | int, ...]]]) -> str:
    shapes = {name: ",".join(map(str, shape)) for name, (_, shape) in tensors.items()}
    return " ".join(f"{name}: {kind}[{shapes[name]}];" for name, (kind, _) in tensors.items())

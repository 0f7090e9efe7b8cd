"""The standard modules as texts: they check, they read alike, and they hold what they should."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

import tvm_nnef
from tvm_nnef.diagnostics import Source
from tvm_nnef.semantics.check import check_program
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.parser import parse

pytestmark = pytest.mark.sampled(3)

FOLDER = Path(tvm_nnef.__file__).parent / "stdlib"
MODULES = ["layout", "math", "linalg", "nn", "image", "quant", "algo", "layer", "misc", "rand"]

BINARY = (
    *("add", "sub", "mul", "div", "mod", "pow", "min", "max"),
    *("lt", "gt", "le", "ge", "eq", "ne", "and", "or", "xor"),
)
REDUCTIONS = tuple(
    f"{name}_reduce" for name in ("min", "max", "sum", "prod", "mean", "lp", "any", "all")
)
POOLINGS = tuple(f"{name}_pool" for name in ("max", "sum", "avg", "rms", "lp"))

# those of the draft's chapter 4, and the ones that its implementation adds
OPERATORS = {
    "layout": "constant uniform range shape cast reshape flatten unflatten squeeze unsqueeze "
    "concat split stack unstack tile broadcast slice pad transpose space_to_batch batch_to_space "
    "space_to_depth depth_to_space shuffle nonzero gather gather_nd scatter scatter_nd",
    "math": "iden neg rcp sqr sqrt rsqr rsqrt exp log log2 sin cos tan sinh cosh tanh asin acos "
    "atan asinh acosh atanh abs sign not floor ceil round add sub mul div mod pow min max lt gt "
    "le ge eq ne and or xor select sum_n prod_n min_n max_n argmin_n argmax_n any_n all_n axpb "
    "axpby clamp min_reduce max_reduce sum_reduce prod_reduce mean_reduce lp_reduce any_reduce "
    "all_reduce argmin argmin_nd argmax argmax_nd moments cumsum",
    "linalg": "dot matvec matmul outer",
    "nn": "linear conv deconv max_pool sum_pool avg_pool rms_pool lp_pool relu prelu "
    "thresholded_relu elu selu gelu silu sigmoid softplus erf batch_norm mean_variance_norm "
    "local_response_norm l1_norm l2_norm softmax lstm lstm_loop lstm_step",
    "image": "nearest_downsample nearest_upsample area_downsample linear_upsample nearest_resize "
    "linear_resize cubic_resize resize rescale max_roi_pool avg_roi_pool grid_sample",
    "quant": "zero_point_linear_quantize min_max_linear_quantize",
    "algo": "top_k nonmax_suppress",
    "layer": "linear conv deconv batch_norm",
    "misc": "mesh_grid",
    "rand": "uniform normal bernoulli",
}


def text(module: str) -> str:
    """The text of a standard module."""
    return (FOLDER / f"{module}.sknd").read_text(encoding="utf-8")


def definitions(module: str) -> dict[str, nodes.Definition]:
    """The operators of a standard module by name."""
    tree = parse(text(module), f"{module}.sknd")
    return {definition.name.name: definition for definition in tree.definitions}


def block(definition: nodes.Definition, kind: str) -> tuple[nodes.Statement, ...]:
    """The statements of one block."""
    return next(block.statements for block in definition.blocks if block.kind == kind)


def test_modules_check() -> None:
    def load(parts: tuple[str, ...]) -> Source | None:
        path = FOLDER.joinpath(*parts).with_suffix(".sknd")
        return Source(f"<stdlib>/{path.name}", path.read_text("utf-8")) if path.exists() else None

    graph = "graph G { @output { y: real; } @compose { y = 1.0; } }"
    main = Source("main.sknd", f"import {', '.join(MODULES)};\n{graph}")
    program, diagnostics = check_program(main, load, check_stdlib=True)
    assert [diagnostic.render() for diagnostic in diagnostics] == []
    assert program is not None
    assert {*program.modules} == {*MODULES, "main"}


@pytest.mark.parametrize("module", MODULES)
def test_operators_are_those_of_the_specification(module: str) -> None:
    public = [name for name in definitions(module) if not name.startswith("_")]
    assert sorted(public) == sorted(OPERATORS[module].split())


@pytest.mark.parametrize("module", MODULES)
def test_every_operator_says_what_it_computes(module: str) -> None:
    lines = text(module).splitlines()
    silent = [
        line
        for above, line in pairwise(lines)
        if line.startswith("operator") and not above.startswith("# ")
    ]
    assert silent == []
    assert [line for line in lines if len(line) > 100 or line != line.rstrip()] == []


@pytest.mark.parametrize("module", MODULES)
def test_text_is_clean(module: str) -> None:
    """What a copy of the damaged text would bring along."""
    assert re.findall(r"[^\x00-\x7f]|\\(?:gg|dots|sim|&)|</pre>|\t", text(module)) == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("module", "family", "kind"),
    [
        ("math", BINARY, "using"),
        ("math", BINARY, "attrib"),
        ("math", BINARY, "assert"),
        ("math", REDUCTIONS, "using"),
        ("math", REDUCTIONS, "output"),
    ],
)
def test_a_family_shares_its_block(module: str, family: tuple[str, ...], kind: str) -> None:
    """The language has no macros, so the copies are kept equal here."""
    operators = definitions(module)
    first, *others = (block(operators[name], kind) for name in family)
    if kind == "output":
        shapes = {tuple(p.type.shape or () for p in statements) for statements in (first, *others)}
        assert len(shapes) == 1
    else:
        assert [other == first for other in others] == [True] * len(others)


def test_modules_share_the_unit_of_their_norms() -> None:
    """A private operator of a module is none for another, so there are two copies."""
    first, second = (text(module).partition("operator _unit ")[2] for module in ("math", "nn"))
    assert first.partition("\n}\n")[0] == second.partition("\n}\n")[0] != ""


def test_poolings_share_their_windows() -> None:
    operators = definitions("nn")
    usings = [dict(_usings(operators[name])) for name in POOLINGS]
    for using in usings[1:]:
        assert {name: using[name] for name in using} == {name: usings[0][name] for name in using}


def _usings(definition: nodes.Definition) -> list[tuple[str, nodes.Expression]]:
    found = []
    for statement in block(definition, "using"):
        assert isinstance(statement, nodes.Using)
        assert isinstance(statement.target, nodes.NameTarget)
        found.append((statement.target.name.name, statement.value))
    return found

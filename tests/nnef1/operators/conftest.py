"""INTERIM"""

from __future__ import annotations
import ast, re
from pathlib import Path
import numpy as np
import pytest
import tvm_nnef
from tvm_nnef.converters.common.assembly import assemble_graph
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.library import EXTRA, Library
from tvm_nnef.converters.common.steps import hint, needed
from tvm_nnef.converters.common.tensors import ConvertedGraph, Tensor
from tvm_nnef.converters.nnef1 import calls
from tvm_nnef.converters.nnef1.operators.registry import convert_call, standard
from tvm_nnef.diagnostics import Source, Span

STD = Path("/work/wt/nnef1/converters/nnef1/standard.nnef").read_text()
LIB = Library("nnef1", "tvm_nnef.converters.nnef1", "Operations of NNEF 1")
HERE = Span(Source("x", ""), 0, 0)
TYPES = {"float32": "scalar", "float64": "scalar", "int32": "integer", "bool": "logical"}


def value(node):
    if isinstance(node, ast.Name):
        return calls.Tensor(node.id)
    if isinstance(node, (ast.List, ast.Tuple)):
        return tuple(map(value, node.elts))
    if isinstance(node, ast.UnaryOp):
        return -value(node.operand)
    return node.value


def declared(name):
    m = re.search(
        r"fragment " + name + r"(<[^>]*>)?\((.*?)\)\s*->\s*\((.*?)\)", STD.replace("\n", " ")
    )
    params = {}
    depth = 0
    parts = [""]
    for ch in m[2]:
        depth += ch in "(["
        depth -= ch in ")]"
        if ch == "," and not depth:
            parts.append("")
        else:
            parts[-1] += ch
    for part in parts:
        pname, rest = part.split(":", 1)
        default = (
            ast.parse(py(rest.split("=", 1)[1].strip()), mode="eval").body if "=" in rest else None
        )
        params[pname.strip()] = default
    return params, [r.split(":")[0].strip() for r in m[3].split(",")]


def py(text):
    return (
        re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text))
        .replace("lambda", "lambda_")
        .replace("and(", "and_(")
        .replace("or(", "or_(")
        .replace("not(", "not_(")
    )


def call_of(text):
    generic = re.search(r"<(\w+)>", text)
    text = re.sub(r"<\w+>", "", text)
    left, right = text.split("=", 1)
    node = ast.parse(py(right.strip()), mode="eval").body
    name = node.func.id.rstrip("_")
    params, results = declared(name)
    names = list(params)
    args = {n: value(v) for n, v in params.items() if v is not None}
    args |= {names[i]: value(a) for i, a in enumerate(node.args)}
    args |= {
        k.arg.rstrip("_") if k.arg == "lambda_" else k.arg: value(k.value) for k in node.keywords
    }
    target = value(ast.parse(left.strip(), mode="eval").body)
    targets = (target,) if len(results) == 1 else target
    return calls.Call(
        name,
        {n: args[n] for n in names},
        dict(zip(results, targets)),
        generic and generic[1],
        (),
        HERE,
    )


def convert_text(text, constants=(), **arrays):
    builder, scope, updates = Builder(), {}, []
    for name, array in arrays.items():
        scope[name] = Tensor(
            str(array.dtype), array.shape, name, array if name in constants else None
        )
    inputs = [scope[n] for n in arrays if n not in constants]
    made = []
    for line in text.split(";"):
        if not line.strip():
            continue
        call = call_of(line)
        start = len(builder.steps)
        convert_call(call, scope, builder, standard(), updates)
        flat = []

        def walk(v):
            if isinstance(v, calls.Tensor):
                flat.append(v.label)
            else:
                for e in v:
                    walk(e)

        for v in call.results.values():
            walk(v)
        made = flat
        hint(builder.steps[start:], flat[0])
    outs = builder.outputs([scope[n] for n in made], made)
    graph = ConvertedGraph(tuple(inputs), tuple(outs), tuple(needed(builder.steps, outs)))
    return assemble_graph(graph, "G", path="test", libraries=(EXTRA, LIB))


class Run:
    def __init__(self):
        self.compiled = False

    def model(self, text, constants=(), **arrays):
        return convert_text(text, constants, **arrays)

    def __call__(self, text, constants=(), **arrays):
        model = convert_text(text, constants, **arrays)
        inputs = [a for n, a in arrays.items() if n not in constants]
        out = tvm_nnef.evaluate(model, *inputs)
        if self.compiled:
            for route in ("mapped", "formula"):
                exe = tvm_nnef.build(model, route=route, progress=False)
                for a, b in zip(exe(*inputs), out, strict=True):
                    np.testing.assert_allclose(
                        a.astype(float) if a.dtype != bool else a, b, rtol=1e-4, atol=1e-5
                    )
        return list(out)


@pytest.fixture
def run(request):
    return Run()

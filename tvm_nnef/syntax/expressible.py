"""Check for nodes that the tools dialect cannot express.

Input: a tree. Output: nothing, or an :class:`NnefError` that lists all such nodes. Two other checks
are made where the text is written: that of strings, and that of the bound of a pack's length, which
the draft lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_nnef.diagnostics import Diagnostic, NnefError, Span
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS, DRAFT, TOOLS
from tvm_nnef.syntax.tools_rules import own_builtins
from tvm_nnef.syntax.walk import walk

_RESERVED = TOOLS.reserved - DRAFT.reserved


def check_expressible_in_tools(tree: nodes.Node) -> None:
    """Raise an :class:`NnefError` for all nodes that the tools dialect cannot express."""
    own = own_builtins(tree) if isinstance(tree, nodes.Module) else frozenset[str]()
    invoked = {id(body) for node in walk(tree) for body in _bodies(node)}
    problems = [
        problem for node in walk(tree) for problem in _inexpressible(node, own, id(node) in invoked)
    ]
    if problems:
        raise NnefError(problems)


def _bodies(node: nodes.Node) -> tuple[object, ...]:
    """Return the parts of a node that may be invocations."""
    match node:
        case nodes.Component(_, value):
            return (value,)
        case nodes.BranchArm(condition, consequent):
            return (condition, consequent)
        case nodes.Branch(_, alternative):
            return (alternative,)
        case nodes.Loop(body, condition=condition):
            return (body, condition)
    return ()


def _inexpressible(node: nodes.Node, own: frozenset[str], invoked: bool) -> Iterator[Diagnostic]:
    match node:
        case nodes.Identifier(name) | nodes.TypeName(name) | nodes.Property(_, name):
            yield from _reserved((name,), node.span)
        case nodes.Path(parts):
            yield from _reserved(parts, node.span)
        case nodes.Unary("?", operand) if not isinstance(operand, nodes.Identifier):
            yield _diagnostic("test more than a name for null", node.span)
        case nodes.Import(path) if len(path.parts) > 1:
            yield _diagnostic(f"import '{path}', a nested module", path.span)
        case nodes.Loop(carried=(), scans=(), unroll=True) if (
            node.condition is None or node.post_test
        ):
            yield _diagnostic("begin a loop with 'unroll'", node.span)
        case nodes.Builtin(function) if function.name not in BUILTIN_FUNCTIONS:
            yield _diagnostic(f"call '{function.name}', which is not a built-in", function.span)
        case nodes.Builtin(function) if invoked and function.name in own:
            yield _diagnostic(
                f"call the built-in '{function.name}' where the module's own is meant", node.span
            )
        case nodes.Call(callee) if _is_like_builtin(node) and not (invoked and str(callee) in own):
            yield _diagnostic(f"invoke '{callee}' where the built-in is meant", node.span)


def _is_like_builtin(call: nodes.Call) -> bool:
    if str(call.callee) not in BUILTIN_FUNCTIONS or call.generics or call.attributes or call.label:
        return False
    arguments = call.arguments or ()
    return len(arguments) == 1 and not isinstance(arguments[0], nodes.Omitted)


def _reserved(names: tuple[str, ...], span: Span) -> Iterator[Diagnostic]:
    for name in names:
        if name in _RESERVED:
            message = f"'{name}' is a reserved word of the tools dialect"
            yield Diagnostic(message, span, "choose another name")


def _diagnostic(what: str, span: Span) -> Diagnostic:
    return Diagnostic(f"the tools dialect cannot {what}", span, "change it, or keep the draft")

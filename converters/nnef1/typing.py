"""Type inference of expressions (sections 3.3.1 and 3.3.3), before anything is expanded.

Input: an expression and the types of its names. Output: a type, or None if it is wrong; then the
reason is in ``problems``, and uses of the expression are not reported as well. The generic type of
each invocation is kept in ``generics`` for the expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.fragments import Signature, Signatures, array_type, literal_type
from tvm_nnef.converters.nnef1.types import (
    GENERIC,
    INTEGER,
    LOGICAL,
    SCALAR,
    STRING,
    ArrayType,
    Primitive,
    TensorType,
    TupleType,
    Type,
    binary_type,
    bound,
    candidates,
    cast_hint,
    castable,
    common,
    has_tensor,
    is_generic,
)
from tvm_nnef.diagnostics import MAX_REPORTED, Diagnostic, Note, Span, did_you_mean

BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow", "<": "lt", "<=": "le", ">": "gt",
    ">=": "ge", "==": "eq", "!=": "ne", "&&": "and", "||": "or",
}  # fmt: skip
UNARY = {"+": "copy", "-": "neg", "!": "not"}
"""The fragments of operators on tensors (table 1)."""

_GRAPH_ONLY = ("external", "variable", "update")


@dataclass(frozen=True, slots=True)
class Scope:
    """The types of names; None for a name whose type could not be inferred.

    ``parameters`` are those of a fragment. ``is_generic`` says whether the text is in a generic
    fragment, ``is_graph`` whether it is in the graph.
    """

    names: Mapping[str, Type | None]
    parameters: frozenset[str] = frozenset()
    is_graph: bool = False
    is_generic: bool = False


@dataclass(slots=True)
class Typing:
    """Type inference of expressions, which collects diagnostics."""

    signatures: Signatures
    problems: list[Diagnostic]
    generics: dict[nodes.Invocation, str | None] = field(default_factory=dict)

    def report(self, message: str, span: Span, hint: str, *notes: Note) -> None:
        """Keep a diagnostic."""
        # no hint: as given
        self.problems.append(Diagnostic(message, span, hint, notes))

    def type_of(self, node: nodes.Expression, scope: Scope) -> Type | None:
        """Return the type of an expression."""
        match node:
            case nodes.Literal():
                return literal_type(node)
            case nodes.Name(name=name):
                return self._name(node, name, scope)
            case nodes.Array(items=items):
                return self._array(node, [self.type_of(each, scope) for each in items])
            case nodes.Tuple(items=items):
                return self._tuple(node, [self.type_of(each, scope) for each in items])
            case nodes.Unary():
                return self._unary(node, self.type_of(node.operand, scope))
            case nodes.Binary(left=left, right=right):
                return self._binary(node, self.type_of(left, scope), self.type_of(right, scope))
            case nodes.Select():
                return self._select(node, scope)
            case nodes.Comprehension():
                return self._comprehension(node, scope)
            case nodes.Subscript():
                return self._subscript(node, scope)
            case nodes.Slice():
                return self._slice(node, scope)
            case nodes.Builtin():
                return self._builtin(node, self.type_of(node.operand, scope))
            case nodes.Invocation():
                found = self.invocation(node, scope)
                if found is None or isinstance(found, TensorType):
                    return found
                message = f"'{node.name.name}' has the result {found}; only an operation with a "
                message += "single tensor can be part of an expression"
                hint = "assign the results first, as in 'a, b = f(x);' or '[a, b] = f(x);'"
                self.report(message, node.span, hint)
                return None

    def _name(self, node: nodes.Name, name: str, scope: Scope) -> Type | None:
        if name in scope.names:
            return scope.names[name]
        known = scope.names if len(self.problems) < MAX_REPORTED else ()
        hint = did_you_mean(name, known)
        if hint is None and name in self.signatures:
            hint = f"'{name}' is an operation; invoke it with arguments"
        self.report(f"'{name}' is not defined here", node.span, hint or "assign it before using it")
        return None

    def _array(self, node: nodes.Array, items: list[Type | None]) -> Type | None:
        found = array_type(items)
        if found is None and None not in items:
            listed = ", ".join(dict.fromkeys(map(str, items)))
            hint = "items of an array are of one type; an integer is cast as in 'scalar(i)'"
            self.report(f"the items of this array are of several types: {listed}", node.span, hint)
        return found

    def _tuple(self, node: nodes.Tuple, items: list[Type | None]) -> Type | None:
        types = tuple(each for each in items if each is not None)
        if len(types) < len(items):
            return None
        if len({has_tensor(each) for each in types}) > 1 and not all(
            castable(each, TensorType(None)) for each in types
        ):
            self.report("a tuple mixes tensors and attributes", node.span, "make two of it")
            return None
        return TupleType(types)

    def _unary(self, node: nodes.Unary, operand: Type | None) -> Type | None:
        sign = node.operator
        if operand is None:
            return None
        if isinstance(operand, TensorType):
            return self._operation(node, UNARY[sign], [operand])
        if (operand in (INTEGER, SCALAR)) if sign != "!" else operand == LOGICAL:
            return operand
        wanted = "a logical value" if sign == "!" else "an integer or a scalar"
        self.report(f"'{sign}' takes {wanted}, got {operand}", node.span, cast_hint(operand))
        return None

    def _binary(self, node: nodes.Binary, left: Type | None, right: Type | None) -> Type | None:
        sign = node.operator
        if left is None or right is None:
            return None
        if sign == "in":
            return self._contains(node, left, right)
        if isinstance(left, TensorType) or isinstance(right, TensorType):
            return self._operation(node, BINARY[sign], [left, right])
        found = binary_type(sign, left, right)
        if found is None:
            hint = cast_hint(left) if left in (INTEGER, SCALAR) else ""
            if {left, right} == {INTEGER, SCALAR}:
                hint = "write the integer as a scalar, as in '2.0', or cast it: 'scalar(i)'"
            hint = hint or "see table 1 of the specification, section 3.3.3"
            self.report(f"'{sign}' does not take {left} and {right}", node.span, hint)
        return found

    def _contains(self, node: nodes.Binary, item: Type, array: Type) -> Type | None:
        if isinstance(array, ArrayType):
            if array.item is None or common(item, array.item) is not None:
                return LOGICAL
            message = f"'in' looks for {item} among items of {array.item}"
        else:
            message = f"'in' takes an array on its right, got {array}"
        self.report(message, node.span, "write it as in 'i in [2, 4, 6]'")
        return None

    def _operation(
        self, node: nodes.Unary | nodes.Binary, name: str, operands: list[Type]
    ) -> Type | None:
        """Return the type of an operator on tensors, which is that of its fragment."""
        signature = self.signatures[name]
        item = next(each.item for each in operands if isinstance(each, TensorType))
        wanted = [bound(each.type, item or GENERIC) for each in signature.parameters]
        for operand, parameter in zip(operands, wanted, strict=True):
            if not castable(operand, parameter):
                message = f"'{node.operator}' is '{name}', which takes {parameter}; got {operand}"
                self.report(message, node.span, cast_hint(operand, parameter))
                return None
        return bound(signature.result_type, item or GENERIC)

    def _select(self, node: nodes.Select, scope: Scope) -> Type | None:
        self.expect(node.condition, LOGICAL, scope, "a condition")
        branches = [self.type_of(each, scope) for each in (node.consequent, node.alternative)]
        first, second = branches
        if first is None or second is None:
            return None
        found = common(first, second)
        if found is None:
            message = f"the branches are of types {first} and {second}"
            self.report(message, node.span, "both are of one type; cast one of them")
        return found

    def expect(self, node: nodes.Expression, wanted: Type, scope: Scope, what: str) -> None:
        """Report an expression of a type other than ``wanted``."""
        type_found = self.type_of(node, scope)
        if type_found is not None and type_found != wanted:
            hint = cast_hint(type_found, wanted)
            self.report(f"{what} is of type {wanted}, got {type_found}", node.span, hint)

    def _comprehension(self, node: nodes.Comprehension, scope: Scope) -> Type | None:
        names = dict(scope.names)
        for each in node.iterators:
            source = self.type_of(each.source, scope)
            item = source.item if isinstance(source, ArrayType) else None
            if source is not None and not isinstance(source, ArrayType):
                hint = "iterate over an array; 'range_of(x)' gives its indices"
                self.report(f"expected an array, got {source}", each.source.span, hint)
            names[each.name.name] = item
        inner = replace(scope, names=names)
        if node.condition is not None:
            self.expect(node.condition, LOGICAL, inner, "a condition")
        item = self.type_of(node.item, inner)
        return None if item is None else ArrayType(item)

    def _subscript(self, node: nodes.Subscript, scope: Scope) -> Type | None:
        value = self.type_of(node.value, scope)
        if isinstance(value, TupleType):
            return self._tuple_item(node, value)
        self.expect(node.index, INTEGER, scope, "a subscript")
        if isinstance(value, ArrayType):
            if value.item is None:
                hint = "an empty array has no items"
                self.report("a subscript of '[]'", node.span, hint)
            return value.item
        return self._sequence(node, value)

    def _tuple_item(self, node: nodes.Subscript, value: TupleType) -> Type | None:
        index = node.index.value if isinstance(node.index, nodes.Literal) else None
        if type(index) is int and index < len(value.items):
            return value.items[index]
        hint = f"write an integer from 0 to {len(value.items) - 1}, or unpack the tuple: 'a, b = t'"
        self.report("the subscript of a tuple is an integer literal", node.index.span, hint)
        return None

    def _slice(self, node: nodes.Slice, scope: Scope) -> Type | None:
        value = self.type_of(node.value, scope)
        for each in (node.begin, node.end):
            if each is not None:
                self.expect(each, INTEGER, scope, "an end of a range")
        return value if isinstance(value, ArrayType) else self._sequence(node, value)

    def _sequence(self, node: nodes.Subscript | nodes.Slice, value: Type | None) -> Type | None:
        if value is None or value == STRING:
            return value
        hint = "arrays, strings and tuples have subscripts"
        if isinstance(value, TensorType):
            hint = "use the operation 'slice' for tensors"
        self.report(f"a value of type {value} has no subscript", node.span, hint)
        return None

    def _builtin(self, node: nodes.Builtin, operand: Type | None) -> Type | None:
        if operand is None:
            return None
        match node.name:
            case "shape_of":
                return ArrayType(INTEGER)
            case "length_of" | "range_of":
                if isinstance(operand, ArrayType) or operand == STRING:
                    return INTEGER if node.name == "length_of" else ArrayType(INTEGER)
                wanted = "an array or a string"
            case name:
                if isinstance(operand, Primitive):
                    return Primitive(name)
                wanted = "a value of primitive type"
        hint = "a tensor is cast with the operation 'cast', as in 'cast<integer>(x)'"
        if not isinstance(operand, TensorType):
            hint = "see 'Built-in Functions' of the specification, section 3.3.3"
        self.report(f"'{node.name}' takes {wanted}, got {operand}", node.span, hint)
        return None

    def invocation(self, node: nodes.Invocation, scope: Scope) -> Type | None:
        """Return the type of the results of an invocation, several of them as a tuple."""
        types = [self.type_of(each.value, scope) for each in node.arguments]
        name = node.name.name
        signature = self.signatures.get(name)
        if signature is None:
            hint = did_you_mean(name, self.signatures) or f"declare it: 'fragment {name}( … )'"
            self.report(f"there is no operation or fragment '{name}'", node.name.span, hint)
            return None
        if name in _GRAPH_ONLY and signature.is_standard and not scope.is_graph:
            hint = "invoke it in the graph, and hand its result to the fragment"
            self.report(f"'{name}' is used inside a fragment", node.span, hint)
        bound_ = self._arguments(node, signature)
        if bound_ is None:
            return None
        given = {p: (a, type_) for (p, a), type_ in zip(bound_, types, strict=True)}
        generic = self._generic(node, signature, given, scope)
        if signature.is_generic and generic is None:
            return None
        self.generics[node] = generic
        for parameter, (argument, type_) in given.items():
            wanted = bound(parameter.type, generic or GENERIC)
            if type_ is not None and not castable(type_, wanted):
                message = f"'{parameter.name.name}' of '{name}' is of type {wanted}, got {type_}"
                self.report(message, argument.value.span, cast_hint(type_, wanted))
        return bound(signature.result_type, generic or GENERIC)

    def _arguments(
        self, node: nodes.Invocation, signature: Signature
    ) -> list[tuple[nodes.Parameter, nodes.Argument]] | None:
        """Return the parameter of each argument; None if their structure is wrong."""
        before = len(self.problems)
        pairs: list[tuple[nodes.Parameter, nodes.Argument]] = []
        by_name = {each.name.name: each for each in signature.parameters}
        listed = f"parameters are {', '.join(by_name)}"
        given: set[str] = set()
        named: nodes.Argument | None = None
        for number, argument in enumerate(node.arguments):
            if argument.name is not None:
                named = named or argument
                parameter = by_name.get(argument.name.name)
                if parameter is None:
                    message = f"'{signature.name}' has no parameter '{argument.name.name}'"
                    hint = did_you_mean(argument.name.name, by_name) or listed
                    self.report(message, argument.name.span, hint)
                    continue
            elif named is not None:
                hint = "write its name before it, or move it to the front"
                self.report("a positional argument after a named one", argument.span, hint)
                continue
            elif number >= (count := len(signature.parameters)):
                message = f"'{signature.name}' takes {count} arguments, got {len(node.arguments)}"
                self.report(message, argument.span, listed)
                break
            else:
                parameter = signature.parameters[number]
            if parameter.name.name in given:
                message = f"'{parameter.name.name}' is given twice"
                self.report(message, argument.span, "remove one of the two")
            given.add(parameter.name.name)
            pairs.append((parameter, argument))
        missing = [
            name for name, each in by_name.items() if name not in given and each.default is None
        ]
        if missing and len(self.problems) == before:
            hint = f"it is of type {by_name[missing[0]].type}, and has no default value"
            names = ", ".join(map(repr, missing))
            self.report(f"'{signature.name}' lacks {names}", node.span, hint)
        return pairs if len(self.problems) == before else None

    def _generic(
        self,
        node: nodes.Invocation,
        signature: Signature,
        given: Mapping[nodes.Parameter, tuple[nodes.Argument, Type | None]],
        scope: Scope,
    ) -> str | None:
        """Return the type instead of ``?``.

        It is None if the fragment has none or it cannot be inferred.
        """
        name = signature.name
        if node.generic is not None:
            if not signature.is_generic:
                self.report(f"'{name}' is not generic", node.span, f"write '{name}(...)'")
            elif node.generic == GENERIC and not scope.is_generic:
                self.report("'<?>' outside of a generic fragment", node.span, "name a type")
                return None
            return node.generic
        if signature.item_type is not None:
            return self._item_type(node, *signature.item_type, given)
        if not signature.is_generic or signature.node.generic_default is not None:
            return signature.node.generic_default if signature.is_generic else None
        if any(type_ is None and is_generic(each.type) for each, (_, type_) in given.items()):
            return None
        found = sorted({
            candidate
            for parameter, (_, type_) in given.items()
            if type_ is not None
            for candidate in candidates(parameter.type, type_)
        })  # fmt: skip
        if len(found) == 1:
            return found[0]
        what = f"can be {' or '.join(found)}" if found else "does not follow from the arguments"
        hint = f"write it, as in '{name}<scalar>(...)'; arguments of one type need no cast"
        self.report(f"the generic type of '{name}' {what}", node.span, hint)
        return None

    def _item_type(
        self,
        node: nodes.Invocation,
        name: str,
        meaning: Callable[[str], str | None],
        given: Mapping[nodes.Parameter, tuple[nodes.Argument, Type | None]],
    ) -> str | None:
        """Return the generic type that the string of a parameter denotes."""
        texts = (a.value.value for p, (a, _) in given.items()
                 if p.name.name == name and isinstance(a.value, nodes.Literal))  # fmt: skip
        item_type = next((each for text in texts if (each := meaning(str(text)))), None)
        if item_type is None:
            message = f"'{name}' is not a dtype that can be converted"
            self.report(message, node.span, "write as in 'f32'")
        return item_type

"""Tracking of the user's operations through the passes, up to the calls of kernels.

Input: a module whose calls have the path of an operation in their span (``provenance.py``).
Output: for each call of a kernel in the bytecode the operations in it, with the share of each.

Most passes lose spans and keep the names of variables. So each variable gets a name that begins
with the number of a *site*, such as ``op12_conv``, and a table has the operations of the sites. A
variable that a rewrite adds has the number of the one that it is made for (``op12_conv1``). One
without a number, such as a change of layout, belongs to the variable that reads it. If a number is
gone, what it computed is in the kernels that read it. TVM's fusion renames variables; there calls
are found again by what they call and read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import relax

from tvm_nnef.profiling.operation_path import OperationPath, read_path
from tvm_nnef.profiling.spans import span_text
from tvm_nnef.profiling.work_estimate import WorkEstimate, kernel_of
from tvm_nnef.tvm_support import compat, traversal
from tvm_nnef.tvm_support.compat import Module
from tvm_nnef.tvm_support.function_attributes import METADATA

Weights: TypeAlias = "dict[int, float]"
"""The amount of work of a site for each operation, by the operation's number."""

_VARIABLES = (relax.Var, relax.DataflowVar)

_LEAVES = (*_VARIABLES, relax.GlobalVar, tvm.ir.GenericConst)

_LEAST_SHARE = 1e-8

_NUMBERED = re.compile(r"op(\d+)_")


@dataclass(slots=True)
class CallSites:
    """The sites of one module, from pass to pass.

    ``paths`` are the operations, by their numbers, ``sites`` the operations of each site, and
    ``reads`` the numbers of the sites that it reads, or that are in functions that it calls.
    ``notes`` say how operations are computed.
    """

    paths: dict[OperationPath, int] = field(default_factory=dict)
    sites: list[Weights] = field(default_factory=list)
    reads: dict[int, set[int]] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)

    def number(self, mod: Module) -> Module:
        """Return the module whose variables are each named after their site."""
        functions = _functions(mod)
        bindings = {name: list(_bindings(function)) for name, function in functions.items()}
        every = [self._number(each.var) for several in bindings.values() for each in several]
        numbers = {number for number in every if number is not None}
        if len(numbers) == len(every) and all(self._is_complete(each, numbers) for each in numbers):
            return mod
        estimate = WorkEstimate(mod)
        weights = {n: self._found(several, numbers, estimate) for n, several in bindings.items()}
        _add_callers(weights)
        return self._renamed(mod, weights)

    def shared(self, share: Callable[[Module], Module]) -> Callable[[Module], Module]:
        """Return a pass that computes common subexpressions once, at their first variables."""

        def run(mod: Module) -> Module:
            mod = self.number(mod)
            groups: list[list[Any]] = [
                each for f in _functions(mod).values() for each in _equal_variables(f)
            ]
            shared_mod = share(mod)
            if all(len(each) == 1 for each in groups):
                return shared_mod
            remaining = {
                str(b.var.name) for f in _functions(shared_mod).values() for b in _bindings(f)
            }
            sites = {}
            for first, *others in groups:
                gone = [each for each in others if str(each.name) not in remaining]
                every = [self._weights(each) for each in (first, *gone)]
                sites[str(first.name)] = _scaled(_sum(every), 1 / len(every))
            weights = {
                name: [
                    (binding, sites.get(str(binding.var.name), self._weights(binding.var)))
                    for binding in _bindings(function)
                ]
                for name, function in _functions(shared_mod).items()
            }
            return self._renamed(shared_mod, weights)

        return run

    def grouped(self, group: Callable[[Module], Module]) -> Callable[[Module], Module]:
        """Return a pass that moves calls of kernels into functions, which are called instead."""

        def run(mod: Module) -> Module:
            grouped_mod, functions, estimate = group(mod), _functions(mod), WorkEstimate(mod)
            weights = {
                name: self._matched(functions[name], function, _functions(grouped_mod), estimate)
                for name, function in _functions(grouped_mod).items()
                if name in functions
            }
            return self._renamed(grouped_mod, weights)

        return run

    def note(self, variable: str, text: str) -> None:
        """Take a note on the operations that a variable, given by its name, computes."""
        found = _NUMBERED.match(variable)
        if found and int(found[1]) < len(self.sites):
            self.notes.update(dict.fromkeys(self.sites[int(found[1])], text))

    def described(self, mod: Module) -> dict[str, Any]:
        """Return the operations and the calls of kernels, as the metadata of a library have them.

        ``operations`` are in the order of the graph, ``parent`` is the number of the composite
        around one. ``calls`` has for each function the calls of kernels in order: the name of the
        kernel, and pairs of the number of an operation and its share of the work.
        """
        calls = {
            name: [
                [kernel, _rounded(_shares(self._weights(binding.var)))]
                for binding in _bindings(function)
                if (kernel := kernel_of(binding.value))
            ]
            for name, function in _functions(mod).items()
        }
        return {"operations": list(map(self._row, self.paths)), "calls": calls}

    def _row(self, path: OperationPath) -> dict[str, Any]:
        last, parent = path[-1], self.paths.get(path[:-1])
        row = {"name": last.name, "operator": last.operator, "parent": parent}
        row |= {"place": last.place, "source": last.source}
        row["note"] = self.notes.get(self.paths[path], "")
        return {key: value for key, value in row.items() if value not in (None, "")}

    def _operation(self, path: OperationPath) -> int:
        """Return the number of an operation; those around it have lower ones."""
        for length in range(1, len(path) + 1):
            self.paths.setdefault(path[:length], len(self.paths))
        return self.paths[path]

    def _number(self, variable: Any) -> int | None:
        """Return the number of a variable's site, which is in its name; None if it has none."""
        match = _NUMBERED.match(str(variable.name))
        number = int(match[1]) if match else len(self.sites)
        return number if number < len(self.sites) else None

    def _weights(self, variable: Any) -> Weights:
        """Return the operations of a variable's site; empty if it has none."""
        number = self._number(variable)
        return {} if number is None else self.sites[number]

    def _is_complete(self, number: int, kept: set[int]) -> bool:
        """Whether the operations of a site are known, and no site that it read was removed."""
        return bool(self.sites[number]) and self.reads.get(number, kept) <= kept

    def _with_gone(self, number: int, kept: set[int]) -> Iterator[Weights]:
        """Yield the operations of a site, and of the removed sites that it read."""
        waiting, seen = [number], {number}
        while waiting:
            each = waiting.pop()
            yield self.sites[each]
            gone = self.reads.get(each, set()) - kept - seen
            waiting += gone
            seen |= gone

    def _found(
        self, bindings: Sequence[Any], kept: set[int], estimate: WorkEstimate
    ) -> list[tuple[Any, Weights]]:
        """Return the operations of each binding of a function."""
        read = [[_identity(each) for each in _variables(binding.value)] for binding in bindings]
        bound = [_identity(binding.var) for binding in bindings]
        weights: dict[int, Weights] = {}
        for variable, binding in zip(bound, bindings, strict=True):
            number = self._number(binding.var)
            if number is not None:
                weights[variable] = _sum(self._with_gone(number, kept))
            else:
                path = read_path(span_text(binding.value))
                weights[variable] = {self._operation(path): estimate(binding.value)} if path else {}
        readers: dict[int, Weights] = {}
        for variable, variables in zip(reversed(bound), reversed(read), strict=True):
            weights[variable] = weights[variable] or readers.get(variable, {})
            for each in variables:
                readers[each] = weights[variable] or readers.get(each, {})
        for variable, variables in zip(bound, read, strict=True):
            if not weights[variable]:
                sources = (weights.get(each) for each in variables)
                weights[variable] = next((each for each in sources if each), {})
        return [(each, weights[variable]) for variable, each in zip(bound, bindings, strict=True)]

    def _matched(
        self,
        before: relax.Function,
        after: relax.Function,
        functions: Mapping[str, relax.Function],
        estimate: WorkEstimate,
    ) -> list[tuple[Any, Weights]]:
        """Return the operations of bindings after calls were moved into functions of the module."""
        variables_by_key: dict[Any, list[Any]] = {}
        for binding in _bindings(before):
            variables_by_key.setdefault(_key(binding.value, {}), []).append(binding.var)

        def match(binding: Any, same: dict[int, Any]) -> Weights:
            """Return the operations of a binding.

            ``same`` maps variables, by their identity, to the equal ones before the pass.
            """
            value, variable = binding.value, _identity(binding.var)
            if isinstance(value, relax.Tuple):
                same[variable] = tuple(same.get(_identity(e), e) for e in value.fields[:])
            elif isinstance(value, relax.TupleGetItem):
                items = same.get(_identity(value.tuple_value))
                if isinstance(items, tuple):
                    same[variable] = items[int(value.index)]
                    return {}
            candidates = variables_by_key.get(_key(value, same), [])
            if not candidates:
                return {}
            found = candidates.pop(0) if len(candidates) > 1 else candidates[0]
            same.setdefault(variable, found)
            return _scaled(_shares(self._weights(found)), estimate(value))

        parameters = zip(after.params[:], before.params[:], strict=True)
        same: dict[int, Any] = {_identity(new): old for new, old in parameters}
        weights: list[tuple[Any, Weights]] = []
        for binding in _bindings(after):
            group = _called(binding.value, functions)
            if group is None or not _is_group(group):
                weights.append((binding, match(binding, same)))
                continue
            values = zip(group.params[:], binding.value.args[:], strict=True)
            inside = {_identity(p): same.get(_identity(value), value) for p, value in values}
            weights.append((binding, _sum([match(each, inside) for each in _bindings(group)])))
            same[_identity(binding.var)] = inside.get(_identity(group.body.body))
        return weights

    def _renamed(self, mod: Module, found: Mapping[str, Sequence[tuple[Any, Weights]]]) -> Module:
        """Return the module in which each variable has its own site."""
        functions, renamed, numbers = _functions(mod), dict[str, Any](), dict[int, int]()
        for name, weights in found.items():
            variables: dict[int, Any] = {}
            for binding, site in weights:
                old, number = binding.var, len(self.sites)
                title = f"op{number}_{_NUMBERED.sub('', str(old.name), count=1)}"
                variables[_identity(old)] = type(old)(title, old.ty)
                numbers[_identity(old)] = number
                self.sites.append(site)
            renamed[name] = _with_variables(functions[name], variables)
        self._note_reads(functions, numbers)
        return compat.update_functions(mod, renamed)

    def _note_reads(
        self, functions: Mapping[str, relax.Function], numbers: Mapping[int, int]
    ) -> None:
        """Note what sites read; ``numbers`` are those of the sites of renamed variables."""
        self.reads.clear()

        def number_of(variable: Any) -> int | None:
            number = numbers.get(_identity(variable))
            return self._number(variable) if number is None else number

        bindings = {name: list(_bindings(function)) for name, function in functions.items()}
        inner = {
            name: [] if _is_group(functions[name]) else [number_of(each.var) for each in several]
            for name, several in bindings.items()
        }
        for several in bindings.values():
            for binding in several:
                number = number_of(binding.var)
                if number is not None:
                    read = {*map(number_of, _variables(binding.value))}
                    read.update(inner.get(_called_name(binding.value), ()))
                    self.reads[number] = {each for each in read if each is not None}


def _functions(mod: Module) -> dict[str, relax.Function]:
    """Return the Relax functions of a module that have code, by name."""
    return {
        str(variable.name_hint): function
        for variable, function in mod.functions.items()
        if isinstance(function, relax.Function) and str(variable.name_hint) != METADATA
    }


def _bindings(function: relax.Function) -> Iterator[Any]:
    """Yield the bindings of a function in order, with those of branches."""
    return _inner_bindings(function.body)


def _inner_bindings(sequence: Any) -> Iterator[Any]:
    # A slice of an array of TVM is a list, which is read six times as fast as the array.
    for block in getattr(sequence, "blocks", ())[:]:
        for binding in block.bindings[:]:
            value = binding.value
            if isinstance(value, relax.If):
                yield from _inner_bindings(value.true_branch)
                yield from _inner_bindings(value.false_branch)
            yield binding


def _identity(node: Any) -> int:
    """Return a key of a node that lives: TVM makes a new object of Python whenever it is read, and
    compares such objects slowly.
    """
    return int(node.__chandle__())


def _called_name(value: Any) -> str:
    """Return the name of the function of the module that an expression calls; empty if none."""
    operator = getattr(value, "op", None)
    return str(operator.name_hint) if isinstance(operator, relax.GlobalVar) else ""


def _called(value: Any, functions: Mapping[str, relax.Function]) -> relax.Function | None:
    """Return the function of the module that an expression calls."""
    return functions.get(_called_name(value))


def _is_group(function: relax.Function) -> bool:
    """Whether a function was made by TVM from calls that become one kernel."""
    return "Primitive" in (function.attrs or {})


def _leaves(value: Any) -> list[Any]:
    """Return the variables, constants and functions that an expression reads, without symbols."""
    read: list[Any] = []
    _add_leaves(value, read)
    return read


def _add_leaves(value: Any, read: list[Any]) -> None:
    """Add the leaves of an expression; its types, which have most nodes, are not walked over."""
    kind = type(value)
    if kind in _LEAVES:
        if not compat.is_scalar(value):
            read.append(value)
    elif kind is tvm.ir.Call:
        _add_leaves(value.op, read)
        for each in value.args[:]:
            _add_leaves(each, read)
    elif kind is relax.Tuple:
        for each in value.fields[:]:
            _add_leaves(each, read)
    elif kind is relax.TupleGetItem:
        _add_leaves(value.tuple_value, read)
    elif kind in (relax.If, relax.SeqExpr):
        inner: list[Any] = []
        traversal.walk(value, (_LEAVES, inner.append))
        read += (each for each in inner if not compat.is_scalar(each))


def _variables(value: Any) -> list[Any]:
    return [each for each in _leaves(value) if isinstance(each, relax.Var)]


def _with_variables(function: relax.Function, variables: Mapping[int, Any]) -> relax.Function:
    """Return a function in which some variables, given by their identity, are replaced."""
    return traversal.mapped(function, (_VARIABLES, lambda v: variables.get(v.__chandle__(), v)))


def _key(value: Any, same: Mapping[int, Any]) -> tuple[Any, ...]:
    """Return a key of the calls and operands of an expression; ``same`` replaces its variables."""

    def key_of(operand: Any) -> Any:
        if isinstance(operand, tuple):
            return tuple(map(key_of, operand))
        return _identity(operand) if hasattr(operand, "__chandle__") else operand

    operator = str(getattr(getattr(value, "op", None), "name", ""))
    leaves = (
        str(each.name_hint)
        if isinstance(each, relax.GlobalVar)
        else key_of(same.get(_identity(each), each))
        for each in _leaves(value)
    )
    return (type(value), operator, getattr(value, "index", None), *leaves)


def _add_callers(found: Mapping[str, list[tuple[Any, Weights]]]) -> None:
    """Assign bindings of unknown origin to the call of the function that contains them."""
    calls = [
        (bindings, number, found[called])
        for bindings in found.values()
        for number, (binding, _) in enumerate(bindings)
        if (called := _called_name(binding.value)) in found
    ]
    is_stable = False
    while not is_stable:
        is_stable = True
        for outer, number, inner in calls:
            weights = outer[number][1]
            unknown = [place for place, (_, own) in enumerate(inner) if weights and not own]
            for place in unknown:
                inner[place] = (inner[place][0], weights)
                is_stable = False


def _equal_variables(function: relax.Function) -> Iterable[list[Any]]:
    """Return the groups of variables of a function that are bound to the same value."""
    groups: dict[Any, list[Any]] = {}
    same: dict[int, Any] = {}
    for binding in _bindings(function):
        attributes = getattr(binding.value, "attrs", None)
        key = (*_key(binding.value, same), tvm_ffi.structural_hash(attributes))
        group = groups.setdefault(key, [])
        group.append(binding.var)
        same[_identity(binding.var)] = group[0]
    return groups.values()


def _scaled(weights: Weights, factor: float) -> Weights:
    return {number: weight * factor for number, weight in weights.items()}


def _sum(every: Iterator[Weights] | list[Weights]) -> Weights:
    total_weights: Weights = {}
    for weights in every:
        for number, weight in weights.items():
            total_weights[number] = total_weights.get(number, 0.0) + weight
    return total_weights


def _shares(weights: Weights) -> Weights:
    """Return weights that add up to one."""
    whole = sum(weights.values())
    return _scaled(weights, 1 / whole) if weights else {}


def _rounded(shares: Weights) -> list[tuple[int, float]]:
    """Return shares to four digits, without those of expressions that need no kernel."""
    rounded = [(each, float(f"{share:.4g}")) for each, share in sorted(shares.items())]
    return [(each, share) for each, share in rounded if share > _LEAST_SHARE]

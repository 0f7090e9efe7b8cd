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
from collections.abc import Callable, Iterable, Iterator, Mapping
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

_LEAST_SHARE = 1e-8

_NUMBERED = re.compile(r"op(\d+)_")


@dataclass(slots=True)
class CallSites:
    """The sites of one module, from pass to pass.

    ``paths`` are the operations, by their numbers, ``sites`` the operations of each site, and
    ``reads`` the numbers of the sites that it reads, or that are in functions that it calls.
    ``notes`` describe for operations how they are computed.
    """

    paths: dict[OperationPath, int] = field(default_factory=dict)
    sites: list[Weights] = field(default_factory=list)
    reads: dict[int, set[int]] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)

    def number(self, mod: Module) -> Module:
        """Return the module whose variables are each named after their site."""
        functions, estimate = _functions(mod), WorkEstimate(mod)
        variables = [each.var for f in functions.values() for each in _bindings(f)]
        numbers = {number for each in variables if (number := self._number(each)) is not None}
        weights = {n: self._found(function, numbers, estimate) for n, function in functions.items()}
        _add_callers(functions, weights)
        return self._renamed(mod, weights)

    def shared(self, share: Callable[[Module], Module]) -> Callable[[Module], Module]:
        """Return a pass that computes common subexpressions once, at their first variables."""

        def run(mod: Module) -> Module:
            mod = self.number(mod)
            groups = [each for f in _functions(mod).values() for each in _equal_variables(f)]
            shared_mod = share(mod)
            remaining = {
                str(b.var.name) for f in _functions(shared_mod).values() for b in _bindings(f)
            }
            sites = {}
            for first, *others in groups:
                gone = [each for each in others if str(each.name) not in remaining]
                every = [self._weights(each) for each in (first, *gone)]
                sites[str(first.name)] = _scaled(_sum(every), 1 / len(every))
            found = {
                name: {
                    binding.var: sites.get(str(binding.var.name), self._weights(binding.var))
                    for binding in _bindings(function)
                }
                for name, function in _functions(shared_mod).items()
            }
            return self._renamed(shared_mod, found)

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
        self, function: relax.Function, kept: set[int], estimate: WorkEstimate
    ) -> dict[Any, Weights]:
        """Return the operations of each variable of a function."""
        bindings = list(_bindings(function))
        read = [_variables(binding.value) for binding in bindings]
        weights: dict[Any, Weights] = {}
        for binding in bindings:
            number, path = self._number(binding.var), read_path(span_text(binding.value))
            if number is not None:
                weights[binding.var] = _sum(self._with_gone(number, kept))
            else:
                weights[binding.var] = (
                    {self._operation(path): estimate(binding.value)} if path else {}
                )
        readers: dict[Any, Weights] = {}
        for binding, variables in zip(reversed(bindings), reversed(read), strict=True):
            weights[binding.var] = weights[binding.var] or readers.get(binding.var, {})
            for variable in variables:
                readers[variable] = weights[binding.var] or readers.get(variable, {})
        for binding, variables in zip(bindings, read, strict=True):
            if not weights[binding.var]:
                sources = (weights.get(variable) for variable in variables)
                weights[binding.var] = next((each for each in sources if each), {})
        return weights

    def _matched(
        self,
        before: relax.Function,
        after: relax.Function,
        functions: Mapping[str, relax.Function],
        estimate: WorkEstimate,
    ) -> dict[Any, Weights]:
        """Return the operations of variables after calls were moved into functions of the
        module.
        """
        variables_by_key: dict[Any, list[Any]] = {}
        for binding in _bindings(before):
            variables_by_key.setdefault(_key(binding.value, {}), []).append(binding.var)

        def match(binding: Any, same: dict[Any, Any]) -> Weights:
            """Return the operations of a binding.

            ``same`` maps variables to the equal ones before the pass.
            """
            value = binding.value
            if isinstance(value, relax.Tuple):
                same[binding.var] = tuple(same.get(each, each) for each in value.fields)
            elif isinstance(value, relax.TupleGetItem):
                items = same.get(value.tuple_value)
                if isinstance(items, tuple):
                    same[binding.var] = items[int(value.index)]
                    return {}
            candidates = variables_by_key.get(_key(value, same), [])
            if not candidates:
                return {}
            variable = candidates.pop(0) if len(candidates) > 1 else candidates[0]
            same.setdefault(binding.var, variable)
            return _scaled(_shares(self._weights(variable)), estimate(value))

        same: dict[Any, Any] = dict(zip(after.params, before.params, strict=True))
        found: dict[Any, Weights] = {}
        for binding in _bindings(after):
            group = _called(binding.value, functions)
            if group is None or not _is_group(group):
                found[binding.var] = match(binding, same)
                continue
            values = zip(group.params, binding.value.args, strict=True)
            inside = {parameter: same.get(value, value) for parameter, value in values}
            found[binding.var] = _sum([match(each, inside) for each in _bindings(group)])
            same[binding.var] = inside.get(group.body.body)
        return found

    def _renamed(self, mod: Module, found: Mapping[str, Mapping[Any, Weights]]) -> Module:
        """Return the module in which each variable has its own site."""
        functions, variables = _functions(mod), dict[str, dict[Any, Any]]()
        for name, weights in found.items():
            variables[name] = {}
            for variable, site in weights.items():
                base = _NUMBERED.sub("", str(variable.name), count=1)
                title = f"op{len(self.sites)}_{base}"
                variables[name][variable] = type(variable)(title, variable.ty)
                self.sites.append(site)
        changed = {name: _with_variables(functions[name], own) for name, own in variables.items()}
        made = compat.update_functions(mod, changed)
        self._note_reads(_functions(made))
        return made

    def _note_reads(self, functions: Mapping[str, relax.Function]) -> None:
        self.reads.clear()
        for function in functions.values():
            for binding in _bindings(function):
                number, called = self._number(binding.var), _called(binding.value, functions)
                inner: list[Any] = []
                if called is not None and not _is_group(called):
                    inner = [each.var for each in _bindings(called)]
                read = {self._number(each) for each in (*_variables(binding.value), *inner)}
                if number is not None:
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
    for block in getattr(sequence, "blocks", ()):
        for binding in block.bindings:
            if isinstance(binding.value, relax.If):
                yield from _inner_bindings(binding.value.true_branch)
                yield from _inner_bindings(binding.value.false_branch)
            yield binding


def _called(value: Any, functions: Mapping[str, relax.Function]) -> relax.Function | None:
    """Return the function of the module that an expression calls."""
    operator = getattr(value, "op", None)
    return functions.get(str(operator.name_hint)) if isinstance(operator, relax.GlobalVar) else None


def _is_group(function: relax.Function) -> bool:
    """Whether a function was made by TVM from calls that become one kernel."""
    return "Primitive" in (function.attrs or {})


def _leaves(value: Any) -> list[Any]:
    """Return the variables, constants and functions that an expression reads, without symbols."""
    read: list[Any] = []
    traversal.walk(value, ((*_VARIABLES, relax.GlobalVar, tvm.ir.GenericConst), read.append))
    return [each for each in read if not compat.is_scalar(each)]


def _variables(value: Any) -> list[Any]:
    return [each for each in _leaves(value) if isinstance(each, relax.Var)]


def _with_variables(function: relax.Function, variables: Mapping[Any, Any]) -> relax.Function:
    """Return a function in which some variables are replaced."""
    renamed: relax.Function = traversal.mapped(
        function, (_VARIABLES, lambda v: variables.get(v, v))
    )
    return renamed


def _key(value: Any, same: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return a key of the calls and operands of an expression; ``same`` replaces its variables."""
    operator = str(getattr(getattr(value, "op", None), "name", ""))
    leaves = (
        str(each.name_hint) if isinstance(each, relax.GlobalVar) else same.get(each, each)
        for each in _leaves(value)
    )
    return (type(value), operator, getattr(value, "index", None), *leaves)


def _add_callers(
    functions: Mapping[str, relax.Function], found: Mapping[str, dict[Any, Weights]]
) -> None:
    """Assign variables of unknown origin to the call of the function that contains them."""
    calls = [
        (found[name], binding.var, found[str(binding.value.op.name_hint)])
        for name, function in functions.items()
        for binding in _bindings(function)
        if _called(binding.value, functions) is not None
    ]
    is_stable = False
    while not is_stable:
        is_stable = True
        for outer, variable, inner in calls:
            unknown = [each for each, weights in inner.items() if not weights]
            if outer[variable] and unknown:
                inner.update(dict.fromkeys(unknown, outer[variable]))
                is_stable = False


def _equal_variables(function: relax.Function) -> Iterable[list[Any]]:
    """Return the groups of variables of a function that are bound to the same value."""
    groups: dict[Any, list[Any]] = {}
    same: dict[Any, Any] = {}
    for binding in _bindings(function):
        attributes = getattr(binding.value, "attrs", None)
        key = (*_key(binding.value, same), tvm_ffi.structural_hash(attributes))
        group = groups.setdefault(key, [])
        group.append(binding.var)
        same[binding.var] = group[0]
    return groups.values()


def _scaled(weights: Weights, factor: float) -> Weights:
    return {number: weight * factor for number, weight in weights.items()}


def _sum(every: Iterator[Weights] | list[Weights]) -> Weights:
    found: Weights = {}
    for weights in every:
        for number, weight in weights.items():
            found[number] = found.get(number, 0.0) + weight
    return found


def _shares(weights: Weights) -> Weights:
    """Return weights that add up to one."""
    whole = sum(weights.values())
    return _scaled(weights, 1 / whole) if weights else {}


def _rounded(shares: Weights) -> list[tuple[int, float]]:
    """Return shares to four digits, without those of expressions that need no kernel."""
    rounded = [(each, float(f"{share:.4g}")) for each, share in sorted(shares.items())]
    return [(each, share) for each, share in rounded if share > _LEAST_SHARE]

"""The checked program: definitions sorted by block, modules, and the only resolution of names.

Input: parsed modules. Output: :class:`Program`, which composition reads. Nothing is checked here
and nothing is evaluated; :mod:`tvm_nnef.semantics.check` creates the objects that this module
declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import NnefError, Source, did_you_mean, error
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of

MAIN = "main"
STDLIB_PREFIX = "<stdlib>/"
OVERLAY_PREFIX = f"{STDLIB_PREFIX}tools/"


PackRole: TypeAlias = Literal["stack", "concat", "unstack", "split"]
"""The effect of an operator that makes one tensor of a pack, or a pack of one tensor, along
``axis``.
"""


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """The points at which assertions are checked: as soon as their symbols are known (2.9).

    ``after_usings`` holds those that are known before the first ``@using``, then those that each of
    them completes; ``of_outputs`` those that read outputs.
    """

    after_usings: tuple[tuple[nodes.Assertion, ...], ...] = ((),)
    of_outputs: tuple[nodes.Assertion, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedDefinition:
    """An operator or a graph, its statements by block; ``()`` for an absent block.

    ``binding_order`` holds indices into ``inputs`` in the order in which their shapes are bound
    (2.6.1). ``deferred`` names the attributes without a constant expression as default (2.5); they
    are evaluated after the inputs are bound, in the order of their declaration. ``dynamic`` names
    the attributes that accept values known only at run time. ``pack_role`` is that of an operator
    whose operands or results are packs of dynamic length.
    """

    module: str
    node: nodes.Definition
    dtypes: tuple[nodes.DtypeDefinition, ...] = ()
    attributes: tuple[nodes.Parameter, ...] = ()
    inputs: tuple[nodes.Parameter, ...] = ()
    outputs: tuple[nodes.Parameter, ...] = ()
    constants: tuple[nodes.Parameter, ...] = ()
    variables: tuple[nodes.Parameter, ...] = ()
    usings: tuple[nodes.Using, ...] = ()
    assertions: tuple[nodes.Assertion, ...] = ()
    lowerings: tuple[nodes.Lowering, ...] = ()
    components: tuple[nodes.Component, ...] = ()
    updates: tuple[nodes.Component, ...] = ()
    quantizations: tuple[nodes.Quantization, ...] = ()
    binding_order: tuple[int, ...] = ()
    deferred: frozenset[str] = frozenset()
    dynamic: frozenset[str] = frozenset()
    pack_role: PackRole | None = None
    check_order: CheckOrder = CheckOrder()

    @property
    def name(self) -> str:
        """The name within the module."""
        return self.node.name.name

    @property
    def qualified_name(self) -> str:
        """The name with its module, as in ``nn.conv``."""
        return f"{self.module}.{self.name}"

    @property
    def is_graph(self) -> bool:
        """Whether this is a graph, not an operator."""
        return self.node.kind == "graph"

    @property
    def is_public(self) -> bool:
        """Whether the inner tensors can be addressed by name (2.10); true for all graphs."""
        return self.node.public or self.is_graph

    @property
    def is_private(self) -> bool:
        """Whether only its own module may use the definition."""
        return self.name.startswith("_")

    @property
    def is_lowered(self) -> bool:
        """Whether the body is a ``@lower`` block."""
        return any(block.kind == "lower" for block in self.node.blocks)

    @property
    def is_composed(self) -> bool:
        """Whether the body is a ``@compose`` block."""
        return any(block.kind == "compose" for block in self.node.blocks)

    @property
    def has_body(self) -> bool:
        """Whether there is a body; an operator without one is an intrinsic."""
        return self.is_lowered or self.is_composed


class LazyDefinitions(Mapping[str, CheckedDefinition]):
    """Definitions of a module by name, each created on first access.

    A model uses some twenty of the two hundred standard operators.
    """

    __slots__ = ("_build", "_built", "_nodes")

    def __init__(
        self,
        definitions: Mapping[str, nodes.Definition],
        build: Callable[[nodes.Definition], CheckedDefinition],
    ) -> None:
        self._nodes = definitions
        self._build = build
        self._built: dict[str, CheckedDefinition] = {}

    def __getitem__(self, name: str) -> CheckedDefinition:
        if name not in self._built:
            self._built[name] = self._build(self._nodes[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


@dataclass(frozen=True, slots=True)
class CheckedModule:
    """A module: its text, the names of the modules that it imports, and its definitions."""

    name: str
    source: Source
    node: nodes.Module = field(repr=False)
    imports: tuple[str, ...]
    definitions: Mapping[str, CheckedDefinition] = field(repr=False)

    @property
    def is_standard(self) -> bool:
        """Whether the module belongs to the standard library."""
        return self.source.path.startswith(STDLIB_PREFIX)


@dataclass(frozen=True, slots=True)
class Program:
    """All modules of a model by name, ``main`` first, then those that it imports, in order."""

    modules: Mapping[str, CheckedModule]
    dialect: str

    @property
    def graphs(self) -> tuple[CheckedDefinition, ...]:
        """The graphs of ``main`` in the order of the text; the first one is the primary one."""
        found = self.modules[MAIN].definitions.values()
        return tuple(definition for definition in found if definition.is_graph)

    def resolve(self, module: str, path: nodes.Path) -> CheckedDefinition:
        """Return the definition that ``path`` denotes in ``module`` (2.15).

        A single name is looked up in the module itself; a qualified one in its own module import
        list, since imports are not transitive. Raises :class:`NnefError` if the module is not
        imported, or the operator is unknown or private to its module.
        """
        home = self.modules[module]
        name = path.parts[-1]
        owner = ".".join(path.parts[:-1]) or module
        if owner != module and owner not in home.imports:
            raise _not_imported(self, home, owner, path)
        if owner not in self.modules:
            hint = f"correct what is reported for 'import {owner};'"
            raise error(f"module '{owner}' could not be loaded", path.span, hint=hint)
        definitions = self.modules[owner].definitions
        if name not in definitions:
            raise _unknown_operator(self, home, owner, path)
        found = definitions[name]
        if owner != module and found.is_private:
            raise error(
                f"operator '{path}' is private to module '{owner}'",
                path.span,
                hint="names that begin with '_' can only be used in their own module",
            )
        return found

    def invoked(self) -> Mapping[str, CheckedDefinition]:
        """Return the definitions that the graphs invoke, directly or not, by their qualified
        names.
        """
        found: dict[str, CheckedDefinition] = {}
        pending = list(self.graphs)
        while pending:
            definition = pending.pop()
            for call in nodes_of(nodes.Call, definition.node):
                try:
                    callee = self.resolve(definition.module, call.callee)
                except NnefError:
                    continue  # a cast to a generic type
                if callee.qualified_name not in found:
                    found[callee.qualified_name] = callee
                    pending.append(callee)
        return found


def _not_imported(program: Program, home: CheckedModule, owner: str, path: nodes.Path) -> NnefError:
    near = None if owner in program.modules else did_you_mean(owner, home.imports)
    hint = near or f"add 'import {owner};' at the beginning of the file"
    return error(f"module '{owner}' is not imported", path.span, hint=hint)


def _unknown_operator(
    program: Program, home: CheckedModule, owner: str, path: nodes.Path
) -> NnefError:
    name = path.parts[-1]
    if owner == home.name:
        hint = _found_elsewhere(program, home, name) or did_you_mean(name, home.definitions)
        hint = hint or "define it in this module, or import its module and write 'module.operator'"
        return error(f"unknown operator '{name}'", path.span, hint=hint)
    known = [key for key in program.modules[owner].definitions if not key.startswith("_")]
    hint = did_you_mean(name, known) or f"'tvm-nnef ops' lists the operators of '{owner}'"
    return error(f"module '{owner}' has no operator '{name}'", path.span, hint=hint)


def _found_elsewhere(program: Program, home: CheckedModule, name: str) -> str | None:
    for module in home.imports:
        if module in program.modules and name in program.modules[module].definitions:
            return f"did you mean '{module}.{name}'?"
    return None

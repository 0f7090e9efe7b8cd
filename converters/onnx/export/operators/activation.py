"""Element-wise operators for which ONNX has a name; the others are written out as formulas."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation


def _plain(operator: str) -> ExportFunction:
    """An operator of one operand that is the same in ONNX."""

    def function(invocation: Invocation) -> Exported:
        return invocation.emitter.node(operator, invocation.value(0))

    return function


def _identity(invocation: Invocation) -> Exported:
    return invocation.value(0)


def _variadic(operator: str, types: frozenset[str]) -> ExportFunction:
    """An operator of a pack that is one node in ONNX, for some types."""

    def function(invocation: Invocation) -> Exported:
        pack = invocation.pack(0)
        if not pack or invocation.result.type not in types:
            return None
        return invocation.emitter.node(operator, *pack) if len(pack) > 1 else pack[0]

    return function


def _relu(invocation: Invocation) -> Exported:
    """max(min(x, max), alpha * x): with alpha at most 1 a leaky one where nothing limits x."""
    alpha, limit = invocation.real("alpha"), invocation.real("max")
    emitter, x = invocation.emitter, invocation.value(0)
    if alpha is None and limit is None:
        return emitter.node("Relu", x)
    if alpha is None:
        assert limit is not None
        return emitter.node("Clip", x, invocation.scalar(0.0), invocation.scalar(limit))
    if limit is None and invocation.holds(alpha):
        return emitter.node("LeakyRelu", x, alpha=alpha)
    return None


def _prelu(invocation: Invocation) -> Exported:
    rank, axis = invocation.tensor(0).rank, invocation.axis()
    slope = invocation.emitter.unsqueeze(invocation.value(1), list(range(1, rank - axis)))
    return invocation.emitter.node("PRelu", invocation.value(0), slope)


def _thresholded_relu(invocation: Invocation) -> Exported:
    theta = invocation.real("theta")
    if not invocation.holds(theta):
        return None
    return invocation.emitter.node("ThresholdedRelu", invocation.value(0), alpha=theta)


def _elu(invocation: Invocation) -> Exported:
    alpha = invocation.real("alpha")
    if not invocation.holds(alpha):
        return None
    return invocation.emitter.node("Elu", invocation.value(0), alpha=alpha)


def _selu(invocation: Invocation) -> Exported:
    alpha, gamma = invocation.real("alpha"), invocation.real("lambda")
    if not invocation.holds(alpha, gamma):
        return None
    return invocation.emitter.node("Selu", invocation.value(0), alpha=alpha, gamma=gamma)


def _gelu(invocation: Invocation) -> Exported:
    words = {None: "none", "TANH": "tanh"}
    approximate = words.get(invocation.attribute("approximate"))  # type: ignore[arg-type]
    if approximate is None:
        return None
    return invocation.emitter.node("Gelu", invocation.value(0), approximate=approximate)


def _silu(invocation: Invocation) -> Exported:
    x = invocation.value(0)
    return invocation.emitter.node("Mul", x, invocation.emitter.node("Sigmoid", x))


def _clamp(invocation: Invocation) -> Exported:
    """Clip, where the bounds are single and known to be in order."""
    bounds = [invocation.known(invocation.tensor(position)) for position in (1, 2)]
    if invocation.shape(0) != invocation.result.shape:
        return None
    if any(bound is None or bound.shape != () for bound in bounds):
        return None
    low, high = bounds
    if not low <= high:  # type: ignore[operator]
        return None
    return invocation.emitter.node("Clip", *(invocation.value(position) for position in range(3)))


_REAL = frozenset({"real"})
_NUMBER = frozenset({"real", "int"})

COMPUTING: Mapping[str, ExportFunction] = {
    "math.rcp": _plain("Reciprocal"),
    "math.clamp": _clamp,
    "math.sum_n": _variadic("Sum", _REAL),
    "math.min_n": _variadic("Min", _NUMBER),
    "math.max_n": _variadic("Max", _NUMBER),
    "nn.relu": _relu,
    "nn.prelu": _prelu,
    "nn.thresholded_relu": _thresholded_relu,
    "nn.elu": _elu,
    "nn.selu": _selu,
    "nn.gelu": _gelu,
    "nn.silu": _silu,
    "nn.sigmoid": _plain("Sigmoid"),
    "nn.softplus": _plain("Softplus"),
    "nn.erf": _plain("Erf"),
}
MOVING: Mapping[str, ExportFunction] = {"math.iden": _identity}

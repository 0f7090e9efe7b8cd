"""Train the character model in ``docs/examples/writer``, and write it there with weights of 4 bits.

    python scripts/train_writer.py

The text is that of Python's ``help()`` (``pydoc_data.topics``: its language reference, under the
licence of Python). The network is trained with JAX, in about ten minutes on one core; the formulas
here and those of ``writer.sknd`` are the same.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Arrays: TypeAlias = "dict[str, Any]"

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "examples" / "writer"
LAYERS, HEADS, SIZE, INNER, WINDOW = 4, 4, 32, 256, 128
WIDTH = HEADS * SIZE
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
"""Quotation marks and dashes as ASCII has them."""
BATCH = 12
RATE, WARM_UP = 3e-3, 100


def training_text() -> str:
    """Return Python's language reference in characters of ASCII."""
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name].strip() for name in sorted(topics))
    return "".join(each for each in text.translate(PLAIN) if each in CHARACTERS)


def initial(generator: np.random.Generator) -> Arrays:
    """Return random weights, those of all layers in one array with a dimension more."""
    shapes = {
        "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH),
        "mix": (WIDTH, WIDTH), "gate": (INNER, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER),
    }  # fmt: skip
    made: Arrays = {
        name: generator.standard_normal((LAYERS, *shape)) / shape[1] ** 0.5
        for name, shape in shapes.items()
    }
    made["embedding"] = generator.standard_normal((len(CHARACTERS), WIDTH)) * 0.5
    made["scores"] = generator.standard_normal((len(CHARACTERS), WIDTH)) / WIDTH**0.5
    made |= {name: np.ones((LAYERS, WIDTH)) for name in ("scale1", "scale2")}
    made["scale"] = np.ones(WIDTH)
    return {name: jnp.asarray(array, jnp.float32) for name, array in made.items()}


def normalized(x: Any, scale: Any) -> Any:
    """Return rows with a root mean square of 1, times a scale for each column."""
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def rotated(x: Any) -> Any:
    """Return ``[batch, rows, heads, size]`` with pairs turned by the position of the row."""
    half = SIZE // 2
    angle = jnp.arange(x.shape[1])[:, None] * jnp.exp(-jnp.arange(half) * (np.log(1e4) / half))
    cosine, sine = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def layer(x: Any, w: Arrays) -> tuple[Any, None]:
    """Return the rows after a layer of the decoder, for all rows of a batch at once."""
    batch, rows, _ = x.shape
    h = normalized(x, w["scale1"])
    q, k, v = (
        (h @ w[name].T).reshape(batch, rows, HEADS, SIZE) for name in ("query", "key", "value")
    )
    scores = jnp.einsum("bihd,bjhd->bhij", rotated(q), rotated(k)) / SIZE**0.5
    scores = jnp.where(jnp.tri(rows, dtype=bool), scores, -jnp.inf)
    mixed = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores, -1), v)
    x = x + mixed.reshape(batch, rows, WIDTH) @ w["mix"].T
    h = normalized(x, w["scale2"])
    return x + (jax.nn.silu(h @ w["gate"].T) * (h @ w["up"].T)) @ w["down"].T, None


SINGLE = ("embedding", "scores", "scale")
"""Weights that are not those of layers."""


def loss(w: Arrays, rows: Any) -> Any:
    """Return the mean cross entropy of each next character."""
    layers = {name: array for name, array in w.items() if name not in SINGLE}
    x, _ = jax.lax.scan(layer, w["embedding"][rows[:, :-1]], layers)
    scores = normalized(x, w["scale"]) @ w["scores"].T
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), rows[:, 1:, None], -1)
    return -chosen.mean()


@jax.jit
def step(w: Arrays, first: Arrays, second: Arrays, number: Any, rate: Any, rows: Any) -> Any:
    """Return the weights and moments after a step of AdamW, and the loss before it."""
    value, gradients = jax.value_and_grad(loss)(w, rows)
    norm = jnp.sqrt(sum((each * each).sum() for each in gradients.values()))
    gradients = {name: g / jnp.maximum(norm, 1) for name, g in gradients.items()}
    first = {name: 0.9 * m + 0.1 * gradients[name] for name, m in first.items()}
    second = {name: 0.98 * v + 0.02 * gradients[name] ** 2 for name, v in second.items()}
    small, large = 1 - 0.9**number, 1 - 0.98**number

    def moved(name: str) -> Any:
        change = first[name] / small / (jnp.sqrt(second[name] / large) + 1e-8)
        return w[name] - rate * (change + 0.1 * w[name] * (w[name].ndim > 1))

    return {name: moved(name) for name in w}, first, second, value


def train(text: str, steps: int, seed: int = 7) -> Arrays:
    """Return weights for a text; the last twentieth is held out, to report the loss for it."""
    codes = np.array([CHARACTERS.index(each) for each in text], np.int32)
    codes, held_out = np.split(codes, [len(codes) * 19 // 20])
    count = len(held_out) // (WINDOW + 1)
    unseen = held_out[: count * (WINDOW + 1)].reshape(count, WINDOW + 1)
    generator = np.random.default_rng(seed)
    w = initial(generator)
    first, second = ({name: jnp.zeros_like(each) for name, each in w.items()} for _ in range(2))
    start = time.perf_counter()
    for number in range(1, steps + 1):
        rate = RATE * min(number / WARM_UP, (1 + np.cos(np.pi * number / steps)) / 2)
        starts = generator.integers(0, len(codes) - WINDOW, BATCH)
        rows = codes[starts[:, None] + np.arange(WINDOW + 1)]
        w, first, second, value = step(w, first, second, float(number), rate, rows)
        if number % 100 == 0 or number == steps:
            seconds = time.perf_counter() - start
            print(f"{number}: loss {value:.3f}, held out {loss(w, unseen):.3f}, {seconds:.0f} s",
                  flush=True)  # fmt: skip
    return {name: np.asarray(each) for name, each in w.items()}


def variables(w: Arrays) -> Arrays:
    """Return weights by the names that they have in the model, and what its memory begins with."""
    found: Arrays = {}
    for name, array in w.items():
        items = [("", array)] if name in SINGLE else [(f":{n}", a) for n, a in enumerate(array, 1)]
        found |= {f"main.Writer.{name}{item}": each for item, each in items}
    memory = np.zeros((WINDOW, HEADS, SIZE), np.float32)
    for name in ("keys", "values"):
        found |= {f"main.Writer.{name}:{n}": memory for n in range(1, LAYERS + 1)}
    return {**found, "main.Writer.position": np.zeros(1, np.int32)}


def save(w: Arrays, path: Path) -> None:
    """Write the model with weights of 4 bits."""
    import tvm_nnef

    model = tvm_nnef.load_model(FOLDER / "writer.sknd", variables=variables(w))
    small = tvm_nnef.quantize(model, weights="int4", block=32, method="mse")
    print(small.quantization_report.summary())
    tvm_nnef.save_model(small, path)


def main() -> None:
    """Train, and write the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--output", type=Path, default=FOLDER / "writer.tgz")
    options = parser.parse_args()
    save(train(training_text(), options.steps), options.output)


if __name__ == "__main__":
    main()

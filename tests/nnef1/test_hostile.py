"""Documents that are damaged or hostile: an error with a location, within time and memory."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tvm_nnef.converters.nnef1 import convert, evaluation, parser
from tvm_nnef.converters.nnef1.checking import check
from tvm_nnef.diagnostics import NnefError, Source

EXTENSIONS = """version 1.0;
extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;
"""

DOCUMENT = (
    EXTENSIONS
    + """
fragment block( x: tensor<scalar>, parts: tensor<scalar>[] = [], size: integer[] = [1, 2],
    pairs: (integer, scalar)[] = [(1, 2.5), (2, -1.0)], name: string = 'a\\'b',
    flag: logical = true )
-> ( y: tensor<scalar>, rest: tensor<scalar>[] )
{
    n = length_of(size) + 2 ^ 3 - integer(scalar(name + '1') > 0.5) if !flag else size[0];
    t = [for i in range_of(size), p in pairs if i != 1 && (p[0] in [1, 2]) yield x * p[1]];
    y = sigmoid(-x) / (2.0 + exp(t[0])) if n > 0 || flag else x;
    rest = [x] * n + parts[0:length_of(parts)];
}
graph net( input ) -> ( output, more )
{
    input = external<scalar>(shape = [2, 3]);
    a, [b] = block(input);
    m, v = moments(a, axes = [0, 1]);
    [p, q, r] = split(b, axis = 1, ratios = [1, 1, 1]);
    output = concat([p, q, r], axis = 1) + m;
    more = reshape(select(output < 0.5, output, 0.0), shape = [-1]);
}
"""
)

TOKEN = re.compile(r"\w+|'[^']*'|\s+|.", re.DOTALL)
WORDS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "?",
    ",",
    ";",
    ":",
    "=",
    "->",
    "+",
    "-",
    "*",
    "/",
    "^",
    "==",
    "!",
    "&&",
    "if",
    "else",
    "for",
    "in",
    "yield",
    "fragment",
    "graph",
    "tensor",
    "integer",
    "scalar",
    "logical",
    "string",
    "shape_of",
    "length_of",
    "range_of",
    "x",
    "input",
    "block",
    "0",
    "1",
    "-1",
    "2.5",
    "1e400",
    "99999999999999999999",
    "'a'",
    "''",
    "true",
    "#",
    "\\",
    "\0",
    "é",
    "external",
    "variable",
    "update",
    "add_n",
    "copy_n",
    "relu",
    "10000000",
    "^ 10000000",
]


def mutated(text: str, seed: int) -> str:
    """A text with some words removed, doubled, swapped or replaced."""
    choose = random.Random(seed)
    words = TOKEN.findall(text)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        at = choose.randrange(len(words))
        match choose.randrange(5):
            case 0:
                del words[at]
            case 1:
                words.insert(at, choose.choice(WORDS))
            case 2:
                words[at] = choose.choice(WORDS)
            case 3:
                other = choose.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case _:
                words[at : at + 3] = words[at : at + 3] * 2
    return "".join(words)


def test_the_document_is_valid() -> None:
    assert convert(DOCUMENT).graphs == ("net",)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("start", range(0, 400, 50))
def test_mutated_documents(start: int) -> None:
    """Every mistake is reported with its position and a hint, or there is none."""
    for seed in range(start, start + 50):
        text = mutated(DOCUMENT, seed)
        try:
            convert(text)
        except NnefError as caught:
            for each in caught.diagnostics:
                assert each.span is not None or each.file is not None, (seed, each)
                assert each.hint, (seed, each)
                each.render()


@pytest.mark.slow
@pytest.mark.parametrize("start", range(400, 4000, 100))
def test_more_mutated_documents(start: int) -> None:
    for seed in range(start, start + 100):
        try:
            convert(mutated(DOCUMENT, seed))
        except NnefError as caught:
            assert all(each.hint for each in caught.diagnostics), seed


def test_cut_documents() -> None:
    for end in range(0, len(DOCUMENT) - 2, 29):
        with pytest.raises(NnefError):
            check(parser.parse(Source("graph.nnef", DOCUMENT[:end])))


def graph(body: str, fragments: str = "") -> str:
    return f"{EXTENSIONS}{fragments} graph g(x) -> (y) {{ x = external(shape = [2, 3]); {body} }}"


def doubling(count: int) -> str:
    """Fragments each of which invokes the one before it twice."""
    first = "fragment f0(x: tensor<scalar>) -> (y: tensor<scalar>) { y = x; }\n"
    return first + "\n".join(
        f"fragment f{n}(x: tensor<scalar>) -> (y: tensor<scalar>) {{ y = f{n - 1}(f{n - 1}(x)); }}"
        for n in range(1, count)
    )


def cycle(count: int) -> str:
    """Fragments each of which invokes the next one, and the last one the first."""
    return "\n".join(
        f"fragment f{n}(x: tensor<scalar>) -> (y: tensor<scalar>) {{ y = f{(n + 1) % count}(x); }}"
        for n in range(count)
    )


def hostile() -> Iterator[tuple[str, str]]:
    yield "billions of fragments", graph("y = f39(x);", doubling(40))
    yield "long cycle of fragments", graph("y = f0(x);", cycle(1000))
    yield "long array", graph("y = softmax(x, axes = [1] * 99999999999);")
    yield "arrays of arrays", graph("y = softmax(x, axes = ([[1] * 9999] * 999)[0] * 99999);")
    yield "long string", graph("y = pad(x, padding = [], border = 'a' * 9999999999);")
    yield "many copies", graph("[y] = copy_n(x, times = 2000000000);")
    yield "large constant", graph("y = constant(shape = [2000000000, 9], value = [0.0]);")
    yield "power", graph("y = softmax(x, axes = [9 ^ 9 ^ 9 ^ 9 ^ 9]);")
    yield "deep signs", graph(f"y = {'-' * 20000}x;")
    yield "deep brackets", graph(f"y = softmax(x, axes = {'[' * 20000}{']' * 20000});")
    yield (
        "deep types",
        graph("y = x;", f"fragment f(x: integer{'[]' * 20000}) -> (y: tensor<scalar>);"),
    )
    yield "open brackets", graph(f"y = {'(' * 20000}x;")
    yield "many errors", graph("".join(f"a{n} = rellu(x);" for n in range(1000)) + "y = x;")
    yield "many syntax errors", graph("a = ;" * 3000 + "y = x;")
    yield "long name", graph(f"y = {'a' * 100_000};")
    yield "long line", graph("y = " + "x + " * 10_000 + "x;")
    yield (
        "loops in loops",
        graph(
            "y = softmax(x, axes = [for i in [1] * 5000 yield length_of("
            "[for j in [1] * 5000 yield i])]);"
        ),
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", dict(hostile()))
def test_hostile_documents(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_WORK", evaluation.MAX_WORK // 5)
    with pytest.raises(NnefError) as caught:
        convert(dict(hostile())[case])
    assert len(caught.value.diagnostics) <= 101
    assert len(str(caught.value)) < 200_000


def test_a_folder_with_a_link_outside(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "w.dat").write_bytes(b"secret")
    (model / "w.dat").symlink_to(tmp_path / "w.dat")
    text = "w = variable(shape = [2, 3], label = 'w'); y = add(x, w);"
    (model / "graph.nnef").write_text(graph(text))
    with pytest.raises(NnefError, match="outside"):
        convert(model)


def test_a_document_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_bytes(b"version 1.0; # na\xefve\ngraph g(x) -> (y) { }")
    with pytest.raises(NnefError, match="UTF-8"):
        convert(tmp_path)


@pytest.mark.parametrize(
    ("shape", "statement", "message"),
    [
        ("[1000000000]", "[y] = unstack(x, axis = 0);", "has 1000000000 results, and 1 are named"),
        ("[4]", "[y] = copy_n(x, times = 1000000000);", "has 1000000000 results, and 1 are named"),
        ("[4]", "y = tile(x, repeats = [4000000000000]);", "more than 1099511627776 elements"),
        ("[4]", f"y = reshape(x, shape = [{'1,' * 64}4]);", "has 65 dimensions"),
    ],
)
def test_results_that_no_machine_can_hold(shape: str, statement: str, message: str) -> None:
    text = f"version 1.0; graph g(x) -> (y) {{ x = external(shape = {shape}); {statement} }}"
    with pytest.raises(NnefError, match=message) as caught:
        convert(text)
    assert caught.value.diagnostics[0].span is not None

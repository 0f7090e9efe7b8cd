"""What is proposed where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.language_server.completion import proposals_at
from tvm_nnef.language_server.modules import Modules

Cursor = Callable[[str], tuple[Modules, int]]

HEAD = """\
import nn, layout;
operator own { @dtype { T: num; } @attrib { k: int; }
    @input { x: real[n]; } @output { y: real[n]; } """
ATTRIBUTES = {"padding", "stride", "dilation", "groups"}


@pytest.mark.parametrize(
    ("marked", "present", "absent"),
    [
        ("$", {"graph", "operator", "import", "public"}, {"nn", "if"}),
        ("import la$", {"layout", "nn", "math"}, {"graph"}),
        (HEAD + "$ }", {"@compose", "@lower"}, {"graph"}),
        (HEAD + "@lo$ }", {"@compose", "@lower"}, {"x"}),
        (HEAD + "@compose { y = $ } }", {"x", "k", "n", "nn", "own", "if"}, {"real", "graph"}),
        (HEAD + "@compose { y = nn.$ } }", {"conv", "relu"}, {"_moments", "x", "nn.conv"}),
        (HEAD + "@compose { y = nn.re$(x); } }", {"conv", "relu"}, {"x"}),
        (HEAD + "@compose { y = nn.conv{$}(x); } }", ATTRIBUTES, {"x"}),
        (HEAD + "@compose { y = nn.conv{pad$ }(x); } }", ATTRIBUTES, {"x"}),
        (HEAD + "@compose { y = nn.conv{padding=k, $}(x); } }", ATTRIBUTES - {"padding"}, {"x"}),
        (HEAD + "@compose { y = nn.conv{padding=$}(x); } }", {"k", "n"}, ATTRIBUTES - {"padding"}),
        (HEAD + "@compose { y = nn.conv{padding=[k, $]}(x); } }", {"k", "n"}, {"stride"}),
        (HEAD + "@compose { y = own{$}(x); } }", {"k"}, {"x"}),
        (HEAD + "@compose { z = if x then { q = $ } }", {"x", "nn"}, {"k=", "stride"}),
        (HEAD + "@lower { y[i] = $ } }", {"x", "exp", "real"}, {"nn", "own"}),
        (HEAD + "@variable { z: $ } }", {"real", "T", "optional"}, {"x", "dynamic"}),
        (HEAD + "@variable { z: re$; } }", {"real"}, {"x"}),
        (HEAD + "@variable { z: real[$]; } }", {"n", "k"}, {"real"}),
        ("# dialect: tools\n" + HEAD + "@attrib { z: $ } }", {"dynamic", "optional"}, {"x"}),
        (HEAD + "# $\n }", set(), {"@compose"}),
        (HEAD + "@assert { k > 0: 'x$'; } }", set(), {"x", "k"}),
    ],
)
def test_what_fits_is_proposed(
    marked: str, present: set[str], absent: set[str], at_cursor: Cursor
) -> None:
    labels = {each.label for each in proposals_at(*at_cursor(marked))}
    assert present <= labels
    assert not labels & absent


@pytest.mark.parametrize(
    ("word", "replaced"), [("nn.re", "re"), ("nn.", ""), ("ow", "ow"), ("", "")]
)
def test_a_proposal_replaces_the_word_before_the_cursor(
    word: str, replaced: str, at_cursor: Cursor
) -> None:
    modules, offset = at_cursor(HEAD + f"@compose {{ y = {word}$ }} }}")
    found = proposals_at(modules, offset)
    assert {modules.source.text[each.start : offset] for each in found} == {replaced}


def test_an_operator_is_proposed_with_its_signature(at_cursor: Cursor) -> None:
    found = proposals_at(*at_cursor(HEAD + "@compose { y = nn.$ } }"))
    (relu,) = (each for each in found if each.label == "relu")
    assert relu.description.startswith("```sknd\nnn.relu")

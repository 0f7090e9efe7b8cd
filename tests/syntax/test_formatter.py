"""The layout of a text: what it looks like, and that nothing else of the text changes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.stdlib.library import standard_module
from tvm_nnef.syntax import format_text, nodes, parse, print_module
from tvm_nnef.syntax.spacing import words_of

ROOT = Path(__file__).resolve().parents[2]

MESSY = """

# top
import nn;import math ; # why
# about op
public operator  swish
{   # header
\t@attrib{beta:real=1.0;gamma: optional int..(d) ; # after gamma
   # own

   }@input{x:real[s..];}


   @output { y: real[s|10]; }
   @assert { beta>0.0:"must  be",beta ,'x':beta; }
   @lower {  y[i..]=x[i..]/(1.0+`exp`(-beta*x[i..])) # mid
   ,
i<s | i>0;

   t=1,
   y[|i|,|j<>0:3|] += a?b:  c ?? -2 ,
                                        i<s; } }
graph G{@input{x:real[1 ..(2)];}@output{y:real;}@compose{
 y=if nn.foo<real>{a = 1,b=[1:2, 3 ..(2)]}(x,~) then {q=x;yield q+..;}
 elif b then c
 else lab:{yield x[:,1:,::2];};
   z = with sum:real[n]=0.0 for x : xs do..(i->n) {yield x;} while c;
  # end
 } }
# last"""

NEAT = """\
# top
import nn;
import math;  # why

# about op
public operator swish {  # header
    @attrib {
        beta: real = 1.0;
        gamma: optional int..(d);  # after gamma
        # own
    }
    @input { x: real[s..]; }

    @output { y: real[s|10]; }
    @assert { beta > 0.0: "must  be", beta, 'x': beta; }
    @lower {
        y[i..] = x[i..] / (1.0 + `exp`(-beta * x[i..]))  # mid
            ,
            i < s | i > 0;

        t = 1,
        y[|i|, |j <> 0 : 3|] += a ? b : c ?? -2,
                                             i < s;
    }
}

graph G {
    @input { x: real[1 ..(2)]; }
    @output { y: real; }
    @compose {
        y = if nn.foo<real>{a=1, b=[1:2, 3 ..(2)]}(x, ~) then {
            q = x;
            yield q + ..;
        }
        elif b then c
        else lab: {
            yield x[:, 1:, ::2];
        };
        z = with sum: real[n] = 0.0 for x : xs do..(i -> n) {
            yield x;
        } while c;
        # end
    }
}

# last
"""


def test_a_messy_text_becomes_neat() -> None:
    assert format_text(MESSY) == NEAT
    assert format_text(NEAT) == NEAT


def test_the_tools_dialect_has_its_own_signs() -> None:
    text = (
        "operator f{@attrib{n:dynamic int;}@input{x:real[static n|4]..(dynamic k|2);}"
        "@output{y:real[n];}@lower{with a=exp(n)<?2,b=3:y[i]>?=a, i<n;}}"
    )
    expected = """\
operator f {
    @attrib { n: dynamic int; }
    @input { x: real[static n|4]..(dynamic k|2); }
    @output { y: real[n]; }
    @lower { with a = exp(n) <? 2, b = 3: y[i] >?= a, i < n; }
}
"""
    assert format_text(text, dialect="tools") == expected


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_stay(end: str) -> None:
    assert format_text(MESSY.replace("\n", end)) == NEAT.replace("\n", end)


def test_a_string_with_a_line_break_stays() -> None:
    text = "operator f { @assert { a: 'one\n   two'; } }"
    assert "'one\n   two'" in format_text(text)


def test_a_long_statement_is_broken_and_a_long_block_opened() -> None:
    arguments = ", ".join(f"argument_number_{n}" for n in range(8))
    text = f"graph G {{ @compose {{ y = nn.conv{{padding=1}}({arguments}); # why\n }} }}"
    found = format_text(text)
    assert max(map(len, found.splitlines())) <= 100
    assert found.count("# why") == 1
    assert format_text(found) == found
    one_line = text.replace(" # why\n", "")
    assert format_text(one_line) == found.replace("  # why", "")


def test_an_empty_text_stays_empty() -> None:
    assert format_text("") == ""
    assert format_text("\n\n") == ""
    assert format_text("\n # a\n") == "# a\n"


def test_a_text_with_errors_is_reported() -> None:
    with pytest.raises(NnefError, match=r"bad\.sknd:1"):
        format_text("graph {", "bad.sknd")


MODULES = ("algo", "linalg", "quant")


@pytest.mark.parametrize("name", MODULES)
def test_what_the_printer_prints_is_formatted(name: str) -> None:
    text = print_module(_module(name))
    assert format_text(text) == text


@pytest.mark.parametrize("name", MODULES)
def test_any_layout_of_a_text_keeps_its_meaning_and_its_comments(name: str) -> None:
    """Blanks, line breaks and comments at random between the tokens of a standard module."""
    module = _module(name)
    chance = random.Random(name)
    text = ""
    comments = []
    for word in words_of(module, "draft"):
        if word.is_comment:
            continue
        gap = chance.choice([" ", " ", " ", "   ", "\n", "\n\n\n", "\t", "#"])
        if gap == "#":
            comments.append(f"# {len(comments)}")
            gap = f" {comments[-1]} \n"
        text += gap + word.text
    again = parse(text)
    found = format_text(text)
    assert parse(found) == again
    assert re.findall(r"# \d+$", found, re.MULTILINE) == comments
    assert format_text(found) == found


def _module(name: str) -> nodes.Module:
    (source,) = standard_module(name)
    return parse(source.text, source.path)

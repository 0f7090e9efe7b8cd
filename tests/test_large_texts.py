"""Long wrong texts are refused in linear time: all of them together within a generous limit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SECONDS = 120

PROGRAM = """
import json
from tvm_nnef.api.checking import check

def using(text):
    return graph("@using { %s }" % text, "y = x;")

def composed(text):
    return graph("", text + " y = x;")

def graph(blocks, components):
    tensors = "@input { x: real[4]; } @output { y: real[4]; }"
    return "graph G { %s %s @compose { %s } }\\n" % (tensors, blocks, components)

TEXTS = {
    "escaped quotes": using('a = "' + (chr(92) + '"') * 60_000),
    "open quotes": using("a = " + (chr(92) + '"') * 60_000),
    "semicolons": using(";" * 100_000),
    "closing brackets": using(") ; ] ; " * 30_000),
    "errors on one line": composed("y=foo(x);" * 5_000),
    "unknown operators": composed("y = foo(x);\\n" * 3_000),
    "long misspelt names": using(
        "".join(f"{'ab' * 500}{i} = {'ba' * 500}{i};" for i in range(150))),
    "many misspelt names": using("".join(f"abc{i} = abd{i};\\n" for i in range(3_000))),
    "absent modules": "".join(f"import m{i};\\n" for i in range(5_000)) + composed(""),
    "imports of main": f"import {', '.join(['main'] * 5_000)};" + composed(""),
    "operators of one name": "operator f { }" * 5_000 + composed(""),
    "numbers": using(f"a = [{'1,' * 300_000}1];"),
    "divisions": using("a = " + "1 / 2; a = " * 5_000 + "1;"),
    "errors at the end": composed("y = x;\\n" * 1_500 + "y = ) ;\\n" * 30),
    "assertions": graph(
        f"@using {{ {' '.join(f'a{i} = 1;' for i in range(1_500))} }}"
        f"@assert {{ {' '.join(f'a{i} == 1;' for i in range(1_500))} }}", "y = x;"),
    "graphs": "".join(composed("").replace("G", f"G{i}") for i in range(500)),
}
for name, text in TEXTS.items():
    found = check(text)
    rendered = sum(len(each.render()) for each in found)
    print(json.dumps([name, len(found), rendered, found[-1].message if found else ""]), flush=True)
"""

EXPECTED = {
    "escaped quotes": "more warnings",
    "open quotes": "more warnings",
    "semicolons": "unexpected ';'",
    "closing brackets": "unexpected ')'",
    "errors on one line": "stopped after 100 errors",
    "unknown operators": "stopped after 100 errors",
    "long misspelt names": "stopped after 100 errors",
    "many misspelt names": "stopped after 100 errors",
    "absent modules": "4900 more errors",
    "imports of main": "4900 more errors",
    "operators of one name": "stopped after 100 errors",
    "numbers": "more than 300000 words and signs",
    "divisions": "stopped after 100 errors",
    "errors at the end": "unexpected ')'",
    "assertions": "",
    "graphs": "",
}


@pytest.mark.slow
def test_long_wrong_texts_take_no_quadratic_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in found] == list(EXPECTED)
    for name, count, rendered, last in found:
        assert EXPECTED[name] in last, name
        assert count <= 203, name
        assert rendered < 500_000, name

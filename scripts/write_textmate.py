"""Write the TextMate grammar of the extension for VS Code from the grammar of the parser.

Exit status 1 with ``--check`` if the file is not what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tvm_nnef.syntax.highlighting import Pattern, patterns

FILE = Path(__file__).resolve().parent / "vscode" / "syntaxes" / "sknd.tmLanguage.json"


def main() -> int:
    """Write the file, or compare it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing")
    options = arguments.parse_args()
    text = json.dumps(grammar(), indent=2) + "\n"
    if options.check:
        return int(not FILE.is_file() or FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
    return 0


def grammar() -> dict[str, Any]:
    """The TextMate grammar as data."""
    return {
        "$schema": "https://json.schemastore.org/tmlanguage.json",
        "comment": "Written by scripts/write_textmate.py; do not edit.",
        "name": "SkriptND",
        "scopeName": "source.sknd",
        "fileTypes": ["sknd"],
        "patterns": [
            _string('"', "double"),
            _string("'", "single"),
            *map(_rule, patterns()),
        ],
    }


def _rule(pattern: Pattern) -> dict[str, Any]:
    if len(pattern.scopes) == 1:
        return {"match": pattern.expression, "name": f"{pattern.scopes[0]}.sknd"}
    captures = {
        str(number): {"name": f"{scope}.sknd"}
        for number, scope in enumerate(pattern.scopes, 1)
        if scope
    }
    return {"match": pattern.expression, "captures": captures}


def _string(quote: str, kind: str) -> dict[str, Any]:
    return {
        "name": f"string.quoted.{kind}.sknd",
        "begin": quote,
        "end": quote,
        "patterns": [
            {"match": r"\\.", "name": "constant.character.escape.sknd"},
            {"match": rf"\{{[^{{}}{quote}]*\}}", "name": "meta.interpolation.sknd"},
        ],
    }


if __name__ == "__main__":
    sys.exit(main())

"""Run the cells of notebooks and store what they show, without Jupyter.

A cell shows what it prints, and its last expression as a table or a text. Run it after a change of
``docs/gallery/tour.ipynb``, in the folder that the notebook is for.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell, and return its outputs in the format of notebooks."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        shown = {"data": data, "execution_count": None, "metadata": {}}
        outputs.append({**shown, "output_type": "execute_result"})
    return outputs


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the cells of a notebook in order, and return it with their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [
        {**each, "outputs": run_cell("".join(each["source"]), names)}
        if each["cell_type"] == "code"
        else each
        for each in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def main() -> None:
    """Run the notebooks that are given, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    for path in parser.parse_args().notebooks:
        found = run(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

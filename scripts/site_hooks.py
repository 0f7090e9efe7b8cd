"""Hooks of MkDocs: what ``docs`` needs to be a site; its pages are read in a checkout, too.

Links out of ``docs`` become links to the sources, folders of the navigation their pages, and the
marks in ``docs/cli.md`` the options of the commands.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tvm_nnef.cli.arguments import make_parser

sys.path.append(str(Path(__file__).parent))  # MkDocs imports this file by its path.

from source_links import LINK, ROOT, address, repository

DOCS = ROOT / "docs"
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files beside ``docs`` that are pages of the site, and their names there."""

_SELDOM = frozenset(
    (
        *("operators.md", "onnx-operators.md", "changelog.md", "conformance.md", "contributing.md"),
        *("architecture.md", "schedules.md", "exact.md", "benchmarks.md"),
    )
)
"""Long tables and pages for contributors: the search shows them after others."""

_ROLE = re.compile(r":(?:func|class|meth|data):<code>~?(?:tvm_nnef\.)?([\w.]+)</code>")
"""A cross-reference of a docstring, as HTML."""

_OPTIONS = re.compile(r"^<!-- options: ([a-z]+) -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation and the address of the sources."""
    config.repo_url = repository()
    config.nav = list(_present(config.nav or []))
    return config


def _present(items: list[Any]) -> Iterator[Any]:
    """The navigation with the pages of its folders, and without pages that are not there."""
    for item in items:
        if isinstance(item, dict):
            for title, inside in item.items():
                if isinstance(inside, str) and not inside.endswith("/"):
                    yield from ({title: each} for each in _present([inside]))
                    continue
                pages = list(_present(inside if isinstance(inside, list) else [inside]))
                if pages:
                    yield {title: pages}
        elif item.endswith("/"):
            names = [each.name for each in (DOCS / item).glob("*.md")]
            yield from (item + name for name in sorted(names, key=_first_the_overview))
        elif (DOCS / item).is_file() or item in PAGES.values():
            yield item


def _first_the_overview(name: str) -> tuple[bool, str]:
    return name not in ("README.md", "index.md"), name


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in ``docs``."""
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = LINK.sub(lambda link: f"]({_seen_from_docs(link[1])}", text)
        files.append(File.generated(config, name, content=text))
    return files


def _seen_from_docs(target: str) -> str:
    """The target of a link of the root folder, relative to ``docs``."""
    return target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The text of a page, with the options of commands and with links that hold on the site."""
    if page.file.src_uri in _SELDOM:
        page.meta["search"] = {"boost": 0.1}
    folder = DOCS if page.file.src_uri in PAGES.values() else _folder(page)
    text = _OPTIONS.sub(lambda mark: "\n".join(options_of(mark[1])), markdown)
    return LINK.sub(lambda link: f"]({_target(link[1], folder)}", text)


def on_page_content(html: str, **_: object) -> str:
    """The page, in which cross-references of docstrings are links if their target is there."""
    return _ROLE.sub(lambda role: _reference(role[1], html), html)


def _reference(name: str, html: str) -> str:
    shown, anchor = f"<code>{name}</code>", f"tvm_nnef.{name}"
    return f'<a href="#{anchor}">{shown}</a>' if f'id="{anchor}"' in html else shown


def _folder(page: Page) -> Path:
    return (DOCS / page.file.src_uri).parent


def _target(target: str, folder: Path) -> str:
    """The target of a link on the site; that in the checkout is relative to a folder."""
    path = (folder / target).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return target  # MkDocs reports it.
    inside = path.relative_to(ROOT).as_posix()
    if inside in PAGES:
        return "../" * len(folder.relative_to(DOCS).parts) + PAGES[inside]
    return target if path.is_file() and path.is_relative_to(DOCS) else address(inside)


def options_of(command: str) -> Iterator[str]:
    """The usage and the options of a command, as tables of Markdown."""
    parsers = make_parser()._subparsers
    assert parsers is not None
    choices = parsers._group_actions[0].choices
    assert isinstance(choices, dict)
    parser = choices[command]
    usage = argparse.HelpFormatter(parser.prog, width=88)
    usage.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups)
    yield f"```text\n{usage.format_help().strip()}\n```\n"
    yield "| argument | meaning | default |"
    yield "|---|---|---|"
    for each in parser._actions:
        if each.dest != "help":
            yield f"| {_names(each)} | {_cell(each.help or '')} | {_default(each)} |"
    yield ""


def _names(action: argparse.Action) -> str:
    choices = ",".join(map(str, action.choices or ()))
    metavar = action.metavar or (f"{{{choices}}}" if choices else action.dest.upper())
    value = "" if action.nargs == 0 else str(metavar)
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{f'{name} {value}'.strip()}`" for name in action.option_strings)


def _default(action: argparse.Action) -> str:
    is_given = action.option_strings and action.default not in (None, False, [], 0)
    return f"`{action.default}`" if is_given else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

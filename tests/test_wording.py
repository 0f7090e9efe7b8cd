"""Comments, docstrings, messages and documents use the terms of compiler engineering."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("tvm_nnef", "converters", "schedules", "scripts", "tests", "docs")
SUFFIXES = (".py", ".md", ".sknd", ".lark")

_COMPARED = "longer|more|less|better|worse|larger|smaller|fewer|other|different|such|limit|fault"
"""What may follow "is no" in standard English."""

PHRASES = (
    ("run tell|run decide|only a run|told", r"\ba run (?:tells|decides)\b|\bonly a run\b|\btold by",
     "known only at run time"),
    ("data decide", r"\bdata decides?\b", "data-dependent"),
    ("open extent|open dimension|open size|open shape",
     r"\bopen (?:extent|dimension|size|shape)s?\b", "dynamic dimension"),
    ("machine type", r"\bmachine types?\b", "dtype"),
    ("no number", r"\b(?:what|or|it) (?:is |was )?no number\b", "NaN"),
    ("is no |are no |was no |were no ",
     rf"(?<!\bthere )\b(?:is|are|was|were) no (?!{_COMPARED})[a-z]", "is not a, are not"),
    ("behind|in front of", r"\bbehind\b|\bin front of\b", "after, before"),
    ("place of", r"\bin place of\b|\btak(?:es?|ing) the place of\b", "instead of, replaces"),
    ("greatest", r"\bgreatest\b(?! common)", "largest, max"),
    ("extremes", r"\bextremes\b", "min and max, limits"),
    ("as far as", r"\bas far as\b", "if, while, up to"),
    ("nobody", r"\bnobody\b", "nothing, no reader"),
    ("tell|told", r"(?<!= )(?<!operator )\btell\b|\b(?:tells|telling|told)\b",
     "return, report, say, distinguish"),
    ("say of|says of", r"\bsays? of\b", "says about, declares for"),
    ("see to|sees to", r"\bsees? to (?:it|its|the|that|them)\b", "checks, ensures"),
    ("of its own|of their own|of our own|of your own|one's own",
     r"\bof (?:its|their|our|your|one's) own\b", "its own, separate"),
    ("enters|leaves", r"(?:^|\. )(?:enters|leaves)(?::| an? )|\benters(?:;|, leaves)",
     "input, output"),
    ("none where|error where|error` where|error`` where|where there",
     r"\bnone where\b|error`* where\b|\bwhere there (?:is|are)\b", "if"),
    ("sayable", r"\b(?:un)?sayable\b", "expressible"),
    (" came", r"\bcame\b", "got, was given"),
    ("expected, ", r"(?:shape \S+|\)|list of \S+|\btype) expected, (?:got|found)\b",
     "expected …, got …"),
    ("no readable", r"\bno readable\b", "not a readable"),
    ("number from", r"\bnumber from \d(?! to)", "number, 1 or more"),
    ("to keep it open|keeps it open", r"\bkeeps? it open\b", "keep it dynamic"),
    ("stand|stood", r"\b(?:stands?|standing|stood)\b(?! for\b)", "is, is written, is allowed"),
    ("save that|anew", r"\bsave that\b|\banew\b", "except that, again"),
    ("where infinity", r"\bwhere infinity\b", "for infinity"),
    ("settle", r"\bsettle[sd]?\b", "infer, decide, complete"),
    ("hallway| door|this room|every room|each room|the house",
     r"\bhallways?\b|\b(?:public|one|side) doors?\b|\b(?:this|every|each) room\b|\bof the house\b",
     "package, interface"),
    ("refusal", r"\brefusals?\b", "unsupported operator, rejection, diagnostic"),
    ("running total", r"\brunning totals?\b", "accumulator, prefix sum"),
    ("frame of", r"\bframe of zeros\b", "padding"),
)  # fmt: skip
"""What a file has if it has the phrase, the phrase that is not written, and what is instead."""

IN_PARTS = {
    "converters/": ("extent", r"(?<!loop )\bextents?\b", "dimension, size"),
    "tvm_nnef/stdlib/": ("extent", r"(?<!loop )\bextents?\b", "dimension, size"),
    "docs/operators.md": ("extent", r"\bextents?\b", "dimension, size"),
}
"""A row more for some files, by the beginning of their path; extents are those of the grammar."""

NAMES = {
    r"(?:^|_)(?:un)?sayable(?:_|$)": "expressible",
    r"(?:^|_)(?:told|tells|telling)(?:_|$)": "reported, returned, known",
    r"(?:^|_)(?:behind|in_front_of)(?:_|$)": "after, before",
    r"(?:^|_)(?:greatest|extremes)(?:_|$)": "largest, max; min and max",
    r"(?:^|_)(?:nobody|nobodys|came|settled?|settles)(?:_|$)": "as in the sentences",
    r"(?:^|_)no_number(?:_|$)": "nan",
    r"(?:^|_)open_(?:extent|dimension|size|shape)s?(?:_|$)": "dynamic dimension",
    r"(?:^|_)data_decides?(?:_|$)": "data_dependent",
    r"(?:^|_)(?:stands?|stood)_(?!for(?:_|$))": "is, is written, is allowed",
}
"""Words of which no name of a function, class, argument or variable is made."""

ALLOWED = {
    "tests/test_wording.py": "lists the phrases",
}
"""Files that are not read, with the reason."""


def test_phrases() -> None:
    """Each line that has a phrase, with what to write instead."""
    found = []
    for path, text in _files():
        rows = [*PHRASES, *(row for start, row in IN_PARTS.items() if path.startswith(start))]
        lowered = text.lower()
        phrases = {
            phrase: instead
            for parts, phrase, instead in rows
            if any(part in lowered for part in parts.split("|"))
            and re.search(phrase, text, re.IGNORECASE)
        }
        for number, line in _prose(Path(path).suffix, text) if phrases else ():
            found += [
                f"{path}:{number}: '{match.group()}': write {instead}"
                for phrase, instead in phrases.items()
                if (match := re.search(phrase, line, re.IGNORECASE))
            ]
    assert not found, "\n".join(found)


def test_names() -> None:
    """Each name with such a word, with what to write instead."""
    where: dict[str, str] = {}
    for path, text in _files():
        if path.endswith(".py"):
            where |= dict.fromkeys(re.findall(r"\w+", text), path)
    found = [
        f"{path}: '{name}': write {instead}"
        for name, path in where.items()
        for pattern, instead in NAMES.items()
        if re.search(pattern, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name), re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


@cache
def _files() -> tuple[tuple[str, str], ...]:
    """The files of the project: their paths in it, and their texts."""
    found = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.*")]
    return tuple(
        (path, file.read_text(encoding="utf-8"))
        for file in sorted([*found, *ROOT.glob("*.md")])
        if file.suffix in SUFFIXES
        and (path := file.relative_to(ROOT).as_posix()) not in ALLOWED
        and "node_modules" not in path
    )


def _prose(suffix: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are written for readers, with their numbers."""
    if suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
    elif suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _PROSE_TOKENS:
                yield from enumerate(token.string.splitlines(), token.start[0])
    else:
        comment = re.compile(r'(?:#|//).*|"[^"]*"')
        for number, line in enumerate(text.splitlines(), 1):
            yield from ((number, part) for part in comment.findall(line))


_PROSE_TOKENS = {
    number
    for number, name in tokenize.tok_name.items()
    if name in ("COMMENT", "STRING", "FSTRING_MIDDLE")
}

"""The server as an editor sees it: started as a process, spoken to by a real client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tvm_nnef.cli import main

REASON = "the language server needs pygls (the extra 'lsp')"
DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits" / "main.sknd"


class Editor:
    """A client with one open document."""

    def __init__(self, client: Any) -> None:
        from lsprotocol import types

        self.client = client
        self.types = types
        self.uri = DIGITS.as_uri()
        self.document = types.TextDocumentIdentifier(self.uri)
        self.text = ""
        self.version = 0
        self.published: asyncio.Queue[Any] = asyncio.Queue()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def published(params: Any) -> None:
            self.published.put_nowait(params)

    async def start(self) -> None:
        types = self.types
        await self.client.start_io(sys.executable, "-m", "tvm_nnef", "lsp")
        await self.client.initialize_async(
            types.InitializeParams(capabilities=types.ClientCapabilities())
        )
        self.client.initialized(types.InitializedParams())
        self.text = DIGITS.read_text("utf-8")
        item = types.TextDocumentItem(self.uri, "sknd", 0, self.text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def change(self, old: str, new: str) -> None:
        types = self.types
        self.text = self.text.replace(old, new)
        self.version += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri),
                [types.TextDocumentContentChangeWholeDocument(self.text)],
            )
        )

    async def diagnostics(self) -> list[Any]:
        found = await self.published.get()
        assert found.uri == self.uri
        return list(found.diagnostics)

    def at(self, marked: str) -> Any:
        """The position of the '$' in a part of the text."""
        offset = self.text.index(marked.replace("$", "")) + marked.index("$")
        line = self.text.count("\n", 0, offset)
        before = self.text[self.text.rfind("\n", 0, offset) + 1 : offset]
        return self.types.Position(line, len(before.encode("utf-16-le")) // 2)


def test_an_editor_is_served_over_standard_input_and_output() -> None:
    pytest.importorskip("pygls", reason=REASON)
    _serve(_session)


@pytest.mark.slow
def test_the_exit_status_is_0_after_an_orderly_end() -> None:
    pytest.importorskip("pygls", reason=REASON)
    command = [sys.executable, "-m", "tvm_nnef", "lsp"]
    requests: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    )
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdin is not None and server.stderr is not None
        for request in requests:
            body = json.dumps({"jsonrpc": "2.0", **request}).encode()
            server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        server.stdin.flush()  # It stays open, as editors keep it.
        assert server.wait(60) == 0
        assert b"internal error" not in server.stderr.read()


async def _session(editor: Editor) -> None:
    types, document = editor.types, editor.document
    assert await editor.diagnostics() == []

    # A character of two UTF-16 code units is before the mistake, on its line.
    editor.change("@input", "@assert { batch > 0: '\U0001f600'; batch > btch; }\n    @input")
    (problem,) = await editor.diagnostics()
    assert problem.message.startswith("'btch' is not defined\nhint: did you mean 'batch'?")
    assert problem.range == types.Range(editor.at("> $btch"), editor.at("> btch$"))
    # Changes in a row are checked once.
    editor.change("btch", "batc")
    editor.change("batc;", "0;")
    assert await editor.diagnostics() == []

    position = types.DefinitionParams(document, editor.at("nn.co$nv"))
    location = await editor.client.text_document_definition_async(position)
    assert location.uri.endswith("/tvm_nnef/stdlib/nn.sknd")
    lines = Path(location.uri.removeprefix("file://")).read_text().splitlines()
    assert lines[location.range.start.line].startswith("operator conv")

    hover = await editor.client.text_document_hover_async(
        types.HoverParams(document, editor.at("re$lu1 ="))
    )
    assert hover.contents.value == "```sknd\nrelu1: real[1, 16, 8, 8]\n```"
    whole = types.Range(types.Position(0, 0), types.Position(999, 0))
    hints = await editor.client.text_document_inlay_hint_async(
        types.InlayHintParams(document, whole)
    )
    assert [each.label for each in hints][:1] == [": real[1, 16, 8, 8]"]
    assert hints[0].position == editor.at("conv1$ =")

    items = await editor.client.text_document_completion_async(
        types.CompletionParams(document, editor.at("nn.co$nv"))
    )
    assert {"conv", "relu"} <= {each.label for each in items}
    assert items[0].text_edit.range == types.Range(editor.at("nn.$co"), editor.at("nn.co$nv"))

    symbols = await editor.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(document)
    )
    assert [each.name for each in symbols] == ["Digits"]

    editor.change("padding=1}(image", "padding = 1 }( image")
    options = types.FormattingOptions(4, True)
    (edit,) = await editor.client.text_document_formatting_async(
        types.DocumentFormattingParams(document, options)
    )
    assert "nn.conv{padding=1}(image, kernel1, bias1);" in edit.new_text
    assert "'\U0001f600'" in edit.new_text
    assert edit.range.end == types.Position(editor.text.count("\n"), 0)


def _serve(session: Callable[[Editor], Awaitable[None]]) -> None:
    async def whole() -> None:
        from pygls.lsp.client import LanguageClient

        editor = Editor(LanguageClient("test", "1"))
        await editor.start()
        try:
            await session(editor)
        finally:
            await editor.stop()

    asyncio.run(asyncio.wait_for(whole(), timeout=60))


def test_a_missing_package_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    modules = {"pygls": None, "lsprotocol": None}
    with patch.dict(sys.modules, modules):
        sys.modules.pop("tvm_nnef.language_server.server", None)
        assert main(["lsp"]) == 1
    assert "pip install 'pygls" in capsys.readouterr().err

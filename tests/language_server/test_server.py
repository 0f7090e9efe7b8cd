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


async def _refactoring(editor: Editor) -> None:
    """References, renaming, signatures and quick fixes, of a real client."""
    from pygls.exceptions import JsonRpcException

    types, document, client = editor.types, editor.document, editor.client
    assert await editor.diagnostics() == []
    at, context = editor.at("re$lu1 ="), types.ReferenceContext(include_declaration=True)
    found = await client.text_document_references_async(
        types.ReferenceParams(context, document, at)
    )
    starts = [editor.at("$relu1 ="), editor.at("($relu1)")]
    assert [each.range.start for each in found] == starts
    assert {each.uri for each in found} == {editor.uri}

    named = await client.text_document_prepare_rename_async(types.PrepareRenameParams(document, at))
    assert named == types.Range(editor.at("$relu1 ="), editor.at("relu1$ ="))
    edit = await client.text_document_rename_async(types.RenameParams(document, at, "act"))
    assert [each.range.start for each in edit.changes[editor.uri]] == starts
    assert {each.new_text for each in edit.changes[editor.uri]} == {"act"}
    for name, reason in (("yield", "a word of the language"), ("image", "is a name already")):
        with pytest.raises(JsonRpcException, match=reason):
            await client.text_document_rename_async(types.RenameParams(document, at, name))

    position = types.SignatureHelpParams(document, editor.at("}(image, $"))
    (signature,) = (await client.text_document_signature_help_async(position)).signatures
    assert signature.label.startswith("nn.conv")
    active = signature.parameters[signature.active_parameter].label
    assert active.startswith("filter:") and active in signature.label

    editor.change("nn.conv{padding=1}(image", "nn.cnov{padding=1}(image")
    (problem,) = await editor.diagnostics()
    assert "did you mean 'conv'?" in problem.message
    (fix,) = await client.text_document_code_action_async(
        types.CodeActionParams(document, problem.range, types.CodeActionContext([problem]))
    )
    assert (fix.kind, fix.title) == ("quickfix", "Replace 'cnov' by 'conv'")
    (edit,) = fix.edit.changes[editor.uri]
    expected = types.Range(editor.at("nn.$cnov{"), editor.at("nn.cnov${"))
    assert (edit.range, edit.new_text) == (expected, "conv")


async def _hostile(editor: Editor) -> None:
    """Positions and documents that are not there are answered with null, never with an error."""
    types, client = editor.types, editor.client
    saved = DIGITS.with_name("absent.sknd").as_uri()
    addresses = [saved, "untitled:a", "http://x/y.sknd", "file:///dev/zero", "", "file:", "a\0b"]
    addresses += ["file:///%00", "file://" + "x" * 5000]
    for uri, line in [*((each, 0) for each in addresses), (editor.uri, 2**31 - 1)]:
        document = types.TextDocumentIdentifier(uri)
        position = types.Position(line, line)
        place = (document, position)
        whole = types.Range(position, position)
        context = types.ReferenceContext(True)
        assert not await client.text_document_hover_async(types.HoverParams(*place))
        assert not await client.text_document_definition_async(types.DefinitionParams(*place))
        reference = types.ReferenceParams(context, *place)
        assert not await client.text_document_references_async(reference)
        signature = types.SignatureHelpParams(*place)
        assert not await client.text_document_signature_help_async(signature)
        action = types.CodeActionParams(document, whole, types.CodeActionContext([]))
        assert not await client.text_document_code_action_async(action)
        hint = types.InlayHintParams(document, whole)
        assert not await client.text_document_inlay_hint_async(hint)
        with pytest.raises(Exception, match=r"no document|no name"):
            await client.text_document_rename_async(types.RenameParams(*place, "a"))
        if line == 0:
            await client.text_document_completion_async(types.CompletionParams(*place))
            symbols = types.DocumentSymbolParams(document)
            assert not await client.text_document_document_symbol_async(symbols)
            formatting = types.DocumentFormattingParams(document, types.FormattingOptions(4, True))
            assert not await client.text_document_formatting_async(formatting)


async def _not_open(editor: Editor) -> None:
    """A document that is not open is read from its file."""
    types, client = editor.types, editor.client
    client.text_document_did_close(types.DidCloseTextDocumentParams(editor.document))
    position = types.HoverParams(editor.document, editor.at("re$lu1 ="))
    hover = await client.text_document_hover_async(position)
    assert hover.contents.value == "```sknd\nrelu1: real[1, 16, 8, 8]\n```"


def test_names_are_found_and_corrected_and_hostile_requests_do_no_harm() -> None:
    pytest.importorskip("pygls", reason=REASON)

    async def session(editor: Editor) -> None:
        await _refactoring(editor)
        await _hostile(editor)
        await _not_open(editor)

    _serve(session)


def test_a_closed_input_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["lsp"]) == 1
    assert "is closed" in capsys.readouterr().err


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

"""The language server: requests of an editor, answered by the other modules of this package.

Texts are those of the editor, sent whole after each change, so that their offsets never depend on
how a library counts lines. Checking runs in a thread, after a short pause in typing.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from lsprotocol import types
from lsprotocol.types import Diagnostic as PublishedDiagnostic
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, error
from tvm_nnef.language_server.checking import (
    Shown,
    correction_of,
    diagnostics_of,
    shapes_of,
    span_of,
)
from tvm_nnef.language_server.completion import Kind, Proposal, proposals_at
from tvm_nnef.language_server.files import files_of
from tvm_nnef.language_server.modules import Modules, modules_of
from tvm_nnef.language_server.names import declaration_at, description
from tvm_nnef.language_server.positions import offset_of, position_of, range_of
from tvm_nnef.language_server.references import references_at, renamable_at, renamed
from tvm_nnef.language_server.signatures import Signature, signature_at
from tvm_nnef.language_server.symbols import Symbol, SymbolKind, symbols_of
from tvm_nnef.semantics.program import STDLIB_PREFIX
from tvm_nnef.stdlib.library import standard_file
from tvm_nnef.storage.container import MAX_TEXT_SIZE
from tvm_nnef.syntax import format_text

_PAUSE = 0.2
"""Seconds without a change after which the texts are checked."""

_REQUEST_FAILED = types.LSPErrorCodes.RequestFailed.value

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_COMPLETIONS: Mapping[Kind, types.CompletionItemKind] = {
    "operator": types.CompletionItemKind.Function,
    "attribute": types.CompletionItemKind.Property,
    "type": types.CompletionItemKind.TypeParameter,
    "block": types.CompletionItemKind.Keyword,
    "module": types.CompletionItemKind.Module,
    "name": types.CompletionItemKind.Variable,
    "keyword": types.CompletionItemKind.Keyword,
    "function": types.CompletionItemKind.Function,
}
_SYMBOLS: Mapping[SymbolKind, types.SymbolKind] = {
    "graph": types.SymbolKind.Class,
    "operator": types.SymbolKind.Function,
    "type": types.SymbolKind.TypeParameter,
    "attribute": types.SymbolKind.Property,
    "tensor": types.SymbolKind.Variable,
    "constant": types.SymbolKind.Constant,
}


_DocumentEvent: TypeAlias = (
    "types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams"
    " | types.DidSaveTextDocumentParams | types.DidCloseTextDocumentParams"
)


_Handler: TypeAlias = "Callable[[Any], Awaitable[Any]]"


class SkriptndServer(LanguageServer):
    """A language server, and what it has sent to the editor."""

    def __init__(self, search_path: Sequence[str] = ()) -> None:
        """Modules are also looked for in the folders of ``search_path``."""
        super().__init__("tvm-nnef", "1", text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.search_path = tuple(search_path)
        self._published: dict[str, list[tuple[Diagnostic, PublishedDiagnostic]]] = {}
        self._checking: asyncio.Task[None] | None = None
        self._shapes: dict[str, tuple[Mapping[str, str], list[Shown]]] = {}

    @property
    def texts(self) -> dict[str, str]:
        """The texts of all open documents by path."""
        documents = self.workspace.text_documents
        return {_path(uri): document.source for uri, document in documents.items()}

    @property
    def encoding(self) -> str:
        """The unit in which characters of a line are counted."""
        agreed = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        return types.PositionEncodingKind(agreed).value

    def uri(self, path: str) -> str:
        """The address of a file, as the editor calls it if it is open."""
        opened = {_path(uri): uri for uri in self.workspace.text_documents}
        file = standard_file(path) if path.startswith(STDLIB_PREFIX) else Path(path)
        return opened.get(path) or file.absolute().as_uri()

    def texts_for(self, uri: str) -> dict[str, str]:
        """The texts of all open documents and of one more; raises :class:`NnefError`."""
        return self.texts | {_path(uri): self.source(uri).text}

    def modules(self, uri: str) -> Modules:
        """The modules of the model of a document; raises :class:`NnefError`."""
        return modules_of(files_of(_path(uri), self.texts_for(uri), self.search_path))

    def source(self, uri: str) -> Source:
        """The text of a document, or of its file if it is not open; raises :class:`NnefError`."""
        path = _path(uri)
        text = self.texts.get(path)
        return Source(path, _saved_text(uri) if text is None else text)

    def offset(self, uri: str, position: types.Position) -> int:
        """The offset of a position in a document."""
        return offset_of(self.source(uri), position.line, position.character, self.encoding)

    def position(self, source: Source, offset: int) -> types.Position:
        """The position of an offset."""
        return types.Position(*position_of(source, offset, self.encoding))

    def range(self, span: Span) -> types.Range:
        """The positions of a span."""
        return types.Range(*(types.Position(*each) for each in range_of(span, self.encoding)))

    def location(self, span: Span) -> types.Location:
        """A span with the address of its file."""
        return types.Location(self.uri(span.source.path), self.range(span))

    def check_soon(self) -> None:
        """Check all open documents after a pause in typing."""
        if self._checking is not None:
            self._checking.cancel()
        self._checking = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        await asyncio.sleep(_PAUSE)
        texts = self.texts
        found = await asyncio.to_thread(_check_all, texts, self.search_path)
        addresses = {self.uri(path): problems for path, problems in found.items()}
        for uri in self._published.keys() - addresses.keys():
            self._publish(uri, [])
        for uri, problems in addresses.items():
            self._publish(uri, problems)

    def _publish(self, uri: str, problems: Sequence[Diagnostic]) -> None:
        found = [self._diagnostic(each) for each in problems]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))
        self._published.pop(uri, None)
        if found:
            self._published[uri] = list(zip(problems, found, strict=True))

    def corrections(self, uri: str, within: types.Range) -> list[types.CodeAction]:
        """Return corrections of misspelt words in a part of a document, as of the last check."""
        text, found = self.source(uri).text, []
        for problem, published in self._published.get(uri, ()):
            correction = correction_of(problem)
            is_here = _pair(published.range.start) <= _pair(within.end)
            is_here = is_here and _pair(within.start) <= _pair(published.range.end)
            # What was changed since is checked again soon.
            if correction is None or not is_here or correction[0].source.text != text:
                continue
            span, word = correction
            edit = types.WorkspaceEdit({uri: [types.TextEdit(self.range(span), word)]})
            found.append(
                types.CodeAction(
                    f"Replace '{span.text}' by '{word}'",
                    types.CodeActionKind.QuickFix,
                    [published],
                    is_preferred=True,
                    edit=edit,
                )
            )
        return found

    def _diagnostic(self, problem: Diagnostic) -> PublishedDiagnostic:
        start = types.Position(0, 0)
        notes = [note for note in problem.notes if note.span is not None]
        lines = [problem.message, *(n.message for n in problem.notes if n.span is None)]
        file = "" if problem.span or not problem.file else f"{problem.file}: "
        return PublishedDiagnostic(
            types.Range(start, start) if problem.span is None else self.range(span_of(problem)),
            file + "\n".join([*lines, *([f"hint: {problem.hint}"] if problem.hint else [])]),
            severity=_SEVERITIES[problem.severity],
            source="tvm-nnef",
            related_information=[
                types.DiagnosticRelatedInformation(self.location(note.span), note.message)
                for note in notes
                if note.span is not None
            ],
        )

    async def shapes(self, uri: str) -> list[Shown]:
        """The shapes in a document, composed once for each state of the texts."""
        path, texts = _path(uri), self.texts_for(uri)
        known = self._shapes.get(path)
        if known is None or known[0] != texts:
            known = texts, await asyncio.to_thread(shapes_of, path, texts, self.search_path)
            self._shapes[path] = known
        return known[1]


def _path(uri: str) -> str:
    """The path of a document; the name of one that was never saved."""
    return str(uris.to_fs_path(uri) or uri) if uri.startswith("file:") else uri.rpartition(":")[2]


def _saved_text(uri: str) -> str:
    """The text of a file, which may be a device or huge; raises :class:`NnefError`."""
    try:
        file = Path(_path(uri))
        if uri.startswith("file:") and file.is_file() and file.stat().st_size <= MAX_TEXT_SIZE:
            return file.read_text("utf-8")
    except (OSError, ValueError):
        pass  # A name that no file can have, or a file that is not a text.
    raise error(f"there is no document '{uri}'", hint="open it first")


def _pair(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def _check_all(texts: Mapping[str, str], search_path: Sequence[str]) -> dict[str, list[Diagnostic]]:
    """The diagnostics of all documents by path; a document's own check says what is wrong there."""
    found: dict[str, list[Diagnostic]] = {}
    own: dict[str, list[Diagnostic]] = {}
    for path in texts:
        for file, problems in diagnostics_of(path, texts, search_path).items():
            (own if file == path else found)[file] = problems
    return found | own


def make_server(search_path: Sequence[str] = ()) -> SkriptndServer:
    """A server that answers what this package can answer; it finds modules in folders as well."""
    server = SkriptndServer(search_path)

    for event in (
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CHANGE,
        types.TEXT_DOCUMENT_DID_SAVE,
        types.TEXT_DOCUMENT_DID_CLOSE,
    ):

        @server.feature(event)
        async def changed(params: _DocumentEvent) -> None:
            server.check_soon()

    @_answering(server, types.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: types.DefinitionParams) -> types.Location | None:
        uri = params.text_document.uri
        found = declaration_at(server.modules(uri), server.offset(uri, params.position))
        return None if found is None else server.location(found.span)

    @_answering(server, types.TEXT_DOCUMENT_REFERENCES)
    async def references(params: types.ReferenceParams) -> list[types.Location]:
        uri, declaration = params.text_document.uri, params.context.include_declaration
        modules, offset = server.modules(uri), server.offset(uri, params.position)
        found = references_at(modules, offset, with_declaration=declaration)
        return [server.location(each) for each in found]

    @_answering(server, types.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare_rename(params: types.PrepareRenameParams) -> types.Range:
        uri = params.text_document.uri
        with _refusing():
            modules, offset = server.modules(uri), server.offset(uri, params.position)
            return server.range(renamable_at(modules, offset))

    @_answering(server, types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    async def rename(params: types.RenameParams) -> types.WorkspaceEdit:
        uri, changes = params.text_document.uri, dict[str, list[types.TextEdit]]()
        with _refusing():
            modules, offset = server.modules(uri), server.offset(uri, params.position)
            for each in renamed(modules, offset, params.new_name):
                edit = types.TextEdit(server.range(each), params.new_name)
                changes.setdefault(server.uri(each.source.path), []).append(edit)
        return types.WorkspaceEdit(changes)

    @_answering(
        server,
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        types.SignatureHelpOptions(trigger_characters=["{", "(", ","]),
    )
    async def signature_help(params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        uri = params.text_document.uri
        found = signature_at(server.modules(uri), server.offset(uri, params.position))
        return None if found is None else types.SignatureHelp([_signature(found)])

    @_answering(
        server,
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions([types.CodeActionKind.QuickFix]),
    )
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        return server.corrections(params.text_document.uri, params.range)

    @_answering(server, types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        found = declaration_at(server.modules(uri), server.offset(uri, params.position))
        if found is None:
            return None
        shapes = {each.offset: each.text for each in await server.shapes(uri)}
        text = description(found, shapes if found.span.source.path == _path(uri) else {})
        if text is None:
            return None
        return types.Hover(_markdown(text), server.range(found.used))

    @_answering(
        server,
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=[".", "@", "{", ","]),
    )
    async def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        uri = params.text_document.uri
        offset = server.offset(uri, params.position)
        found = proposals_at(server.modules(uri), offset)
        return [_completion(server, uri, offset, each) for each in found]

    @_answering(server, types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        uri = params.text_document.uri
        source, kind = server.source(uri), types.InlayHintKind.Type
        first, last = params.range.start.line, params.range.end.line
        hints = [
            types.InlayHint(server.position(source, each.offset), each.text, kind)
            for each in await server.shapes(uri)
        ]
        return [hint for hint in hints if first <= hint.position.line <= last]

    @_answering(server, types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def document_symbol(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        uri = params.text_document.uri
        source, found = server.source(uri), symbols_of(server.modules(uri).document)
        return [_symbol(server, source, each) for each in found]

    @_answering(server, types.TEXT_DOCUMENT_FORMATTING)
    async def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        uri = params.text_document.uri
        source = server.source(uri)
        text = format_text(source.text, source.path, server.modules(uri).dialect)
        if text == source.text:
            return []
        return [types.TextEdit(server.range(Span(source, 0, len(source.text))), text)]

    return server


def _answering(
    server: SkriptndServer, method: str, options: object = None
) -> Callable[[_Handler], _Handler]:
    """Register what answers a request; the answer is null where it raises :class:`NnefError`."""

    def register(handler: _Handler) -> _Handler:
        @functools.wraps(handler)
        async def answer(params: Any) -> Any:
            try:
                return await handler(params)
            except NnefError:
                return None

        server.feature(method, options)(answer)
        return handler

    return register


@contextmanager
def _refusing() -> Iterator[None]:
    """A block whose :class:`NnefError` is the answer, for the editor to show."""
    try:
        yield
    except NnefError as problem:
        reason = problem.diagnostics[0]
        hint = f" ({reason.hint})" if reason.hint else ""
        raise JsonRpcException(f"{reason.message}{hint}", _REQUEST_FAILED) from None


def _markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(types.MarkupKind.Markdown, text)


def _signature(found: Signature) -> types.SignatureInformation:
    return types.SignatureInformation(
        found.label,
        _markdown(found.comment) if found.comment else None,
        [types.ParameterInformation(each) for each in found.parameters],
        found.active,
    )


def _completion(
    server: SkriptndServer, uri: str, offset: int, proposal: Proposal
) -> types.CompletionItem:
    span = Span(server.source(uri), proposal.start, offset)
    text = proposal.description
    return types.CompletionItem(
        proposal.label,
        kind=_COMPLETIONS[proposal.kind],
        detail=proposal.detail or None,
        documentation=_markdown(text) if text else None,
        text_edit=types.TextEdit(server.range(span), proposal.label),
    )


def _symbol(server: SkriptndServer, source: Source, symbol: Symbol) -> types.DocumentSymbol:
    # The tree may be that of a text without its wrong statements, of the same offsets.
    span, name = (Span(source, each.start, each.end) for each in (symbol.span, symbol.name_span))
    return types.DocumentSymbol(
        symbol.name,
        _SYMBOLS[symbol.kind],
        server.range(span),
        server.range(name),
        detail=symbol.detail,
        children=[_symbol(server, source, each) for each in symbol.children],
    )

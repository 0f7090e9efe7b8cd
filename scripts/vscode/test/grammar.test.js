// The TextMate grammar in the engine of VS Code.

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const oniguruma = require("vscode-oniguruma");
const textmate = require("vscode-textmate");

const file = path.join(__dirname, "..", "syntaxes", "sknd.tmLanguage.json");

async function scopes(text) {
  const wasm = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.length));
  const registry = new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (string) => new oniguruma.OnigString(string),
    }),
    loadGrammar: async () => textmate.parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });
  const grammar = await registry.loadGrammar("source.sknd");
  const { tokens } = grammar.tokenizeLine(text);
  return Object.fromEntries(
    tokens.map((token) => [text.slice(token.startIndex, token.endIndex), token.scopes.at(-1)])
  );
}

test("words and strings have their scopes", async () => {
  const found = await scopes(
    "graph G { @compose { y = if nn.conv{a=1}(x) then `exp`(2.5) else 'b\\n'; z: real[3]; } } # c"
  );
  const expected = {
    graph: "storage.type.sknd",
    G: "entity.name.function.sknd",
    "@compose": "keyword.other.block.sknd",
    if: "keyword.control.sknd",
    nn: "entity.name.namespace.sknd",
    conv: "entity.name.function.sknd",
    "`exp`": "support.function.sknd",
    2.5: "constant.numeric.float.sknd",
    "\\n": "constant.character.escape.sknd",
    b: "string.quoted.single.sknd",
    real: "storage.type.sknd",
    3: "constant.numeric.integer.sknd",
    x: "variable.sknd",
    "# c": "comment.line.number-sign.sknd",
  };
  for (const [word, scope] of Object.entries(expected)) {
    assert.strictEqual(found[word], scope, word);
  }
});

// Where the extension looks for the language server.

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const test = require("node:test");
const { BIN, SUFFIX, locate } = require("../src/server");

function install(environment) {
  const program = path.join(environment, BIN, "tvm-nnef" + SUFFIX);
  fs.mkdirSync(path.dirname(program), { recursive: true });
  fs.writeFileSync(program, "");
  return program;
}

test("the interpreter comes before the workspace, and the workspace before the path", (context) => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "skriptnd-"));
  context.after(() => fs.rmSync(root, { recursive: true }));
  const python = path.join(root, "conda", BIN, "python");
  const folders = [path.join(root, "other"), path.join(root, "project")];

  assert.strictEqual(locate("tvm-nnef", python, folders), "tvm-nnef");
  assert.strictEqual(locate("tvm-nnef", undefined, []), "tvm-nnef");
  const ours = install(path.join(root, "project", ".venv"));
  assert.strictEqual(locate("tvm-nnef", python, folders), ours);
  assert.strictEqual(locate("tvm-nnef", "python", folders), ours);
  const selected = install(path.join(root, "conda"));
  assert.strictEqual(locate("tvm-nnef", python, folders), selected);
  assert.strictEqual(locate("/opt/tvm-nnef", python, folders), "/opt/tvm-nnef");
});

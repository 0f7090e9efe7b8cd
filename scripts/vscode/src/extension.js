// Starts the language server of tvm_nnef and connects it to the editor.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const { locate } = require("./server");

let client;

// The interpreter that is selected in the Python extension, if that is installed.
async function interpreter() {
  try {
    const python = await vscode.extensions.getExtension("ms-python.python")?.activate();
    return python?.environments?.getActiveEnvironmentPath()?.path;
  } catch {
    return undefined;
  }
}

async function start() {
  const [name, ...args] = vscode.workspace.getConfiguration("skriptnd").get("server");
  const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
  const command = locate(name, await interpreter(), folders);
  client = new LanguageClient(
    "skriptnd",
    "SkriptND",
    { command, args },
    { documentSelector: [{ language: "sknd" }] }
  );
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `SkriptND: '${command}' does not start (${error.message}). ` +
        "Install tvm-nnef with its extra 'lsp' in the selected Python environment, or set 'skriptnd.server'."
    );
  }
}

async function stop() {
  if (client?.isRunning()) {
    await client.stop();
  }
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(vscode.commands.registerCommand("skriptnd.restart", restart));
  await start();
}

module.exports = { activate, deactivate: stop };

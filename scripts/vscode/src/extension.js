// Starts the language server of tvm_nnef and connects it to the editor.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("skriptnd").get("server");
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
        "Install tvm-nnef with its extra 'lsp', or set 'skriptnd.server'."
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

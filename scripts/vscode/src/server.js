// Where the program of the language server is.

const fs = require("node:fs");
const path = require("node:path");

const [BIN, SUFFIX] = process.platform === "win32" ? ["Scripts", ".exe"] : ["bin", ""];

// The program beside the Python interpreter, or in the folder '.venv' or 'venv' of a folder of the
// workspace; else the name itself, which is looked for on the path. A name with a folder stays.
function locate(name, interpreter, folders) {
  if (path.basename(name) !== name) {
    return name;
  }
  const beside = path.isAbsolute(interpreter ?? "") ? [path.dirname(interpreter)] : [];
  const environments = folders.flatMap((folder) =>
    [".venv", "venv"].map((environment) => path.join(folder, environment, BIN))
  );
  const programs = [...beside, ...environments].map((folder) => path.join(folder, name + SUFFIX));
  return programs.find((program) => fs.existsSync(program)) ?? name;
}

module.exports = { BIN, SUFFIX, locate };

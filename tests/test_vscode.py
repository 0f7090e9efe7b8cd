"""The extension for VS Code: its files fit together, and it builds where npm is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "scripts" / "vscode"


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_the_manifest_names_files_that_are_there() -> None:
    manifest = _read("package.json")
    (language,) = manifest["contributes"]["languages"]
    (grammar,) = manifest["contributes"]["grammars"]
    assert language["id"] == grammar["language"]
    assert language["extensions"] == [".sknd"]
    assert (FOLDER / language["configuration"]).is_file()
    assert _read(grammar["path"])["scopeName"] == grammar["scopeName"]
    assert f"--outfile={manifest['main'].removeprefix('./')}" in manifest["scripts"]["build"]


def test_settings_and_commands_are_those_that_the_client_reads() -> None:
    contributes = _read("package.json")["contributes"]
    client = (FOLDER / "src" / "extension.js").read_text(encoding="utf-8")
    for setting in contributes["configuration"]["properties"]:
        section, name = setting.split(".")
        assert f'getConfiguration("{section}").get("{name}")' in client
    for command in contributes["commands"]:
        assert f'registerCommand("{command["command"]}"' in client
    assert f'language: "{contributes["languages"][0]["id"]}"' in client


def test_brackets_and_words_are_those_of_the_language() -> None:
    configuration = _read("language-configuration.json")
    assert configuration["comments"] == {"lineComment": "#"}
    word = re.compile(configuration["wordPattern"])
    assert word.findall("@input nn.conv x1") == ["@input", "nn", "conv", "x1"]


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (FOLDER / "package-lock.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_extension_builds(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path / "vscode"
    ignored = shutil.ignore_patterns("node_modules", "out")
    shutil.copytree(FOLDER, folder, ignore=ignored)
    if subprocess.run([npm, "ci"], cwd=folder, timeout=300).returncode:
        pytest.skip("npm cannot install the packages of the extension")
    subprocess.run([npm, "run", "build"], cwd=folder, check=True, timeout=300)
    subprocess.run([npm, "test"], cwd=folder, check=True, timeout=300)
    assert (folder / "out" / "extension.js").is_file()

"""What users call a target becomes a TVM target, or an error that helps."""

from __future__ import annotations

import pytest
import tvm

from tvm_nnef.compilation.target import SHORT_NAMES, resolve
from tvm_nnef.diagnostics import NnefError


def test_native_is_the_host_cpu_with_its_own_instructions():
    target = resolve("native")
    assert target.kind.name == "llvm"
    assert target.attrs["mcpu"] == tvm.target.codegen.llvm_get_system_cpu()
    with target:
        features = {str(name) for name in tvm.target.codegen.llvm_get_cpu_features(target)}
    host = dict(tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")())
    absent = {str(name) for name, present in host.items() if not bool(present)}
    disabled = {str(name)[1:] for name in target.attrs.get("mattr", []) if str(name)[0] == "-"}
    assert features & absent <= disabled


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_short_names(name):
    target = resolve(name)
    assert target.kind.name == SHORT_NAMES[name]["kind"]


@pytest.mark.parametrize(
    "given",
    ["llvm -mcpu=znver4 -mattr=+avx2,+fma", '{"kind": "llvm", "mcpu": "znver4"}',
     {"kind": "llvm", "mcpu": "znver4"}, tvm.target.Target({"kind": "llvm", "mcpu": "znver4"})],
    ids=["words", "json", "mapping", "target"],
)  # fmt: skip
def test_every_form_of_a_target(given):
    assert resolve(given).attrs["mcpu"] == "znver4"


def test_words_with_lists_numbers_and_flags():
    target = resolve("llvm -mattr=+avx2,+fma -num-cores=4 -fast-math")
    assert [str(item) for item in target.attrs["mattr"]] == ["+avx2", "+fma"]
    assert int(target.attrs["num-cores"]) == 4


def test_tags_of_tvm():
    assert resolve("nvidia/nvidia-h100").kind.name == "cuda"


@pytest.mark.parametrize(
    ("given", "message"),
    [("nativ", "did you mean 'native'"), ("x86-64-v5", "did you mean 'x86-64-v"),
     ("llvm -mcpux=1", "Unknown config option 'mcpux'"), ("llvm mcpu=1", "options are written"),
     ("{kind: llvm}", "no JSON object"), ({"mcpu": "x"}, "kind"), (7, "of type 'int'"), ("", "")],
)  # fmt: skip
def test_unknown_targets_are_errors_with_a_hint(given, message):
    with pytest.raises(NnefError) as caught:
        resolve(given)
    (found,) = caught.value.diagnostics
    assert message in found.render()
    assert found.hint

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


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [("llvm -mtriple=zzz", "no architecture 'zzz'", None),
     ("llvm -mtriple=armzzz", "no architecture 'armzzz'", "arm"),
     ("llvm -mtriple=x86-64-linux-gnu", "no architecture 'x86'", None),
     ("llvm -mcpu=zen9", "no CPU 'zen9'", "znver5"),
     ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswel", "no CPU 'haswel'", "haswell"),
     ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "znver4"}, "no CPU 'znver4'", None),
     ("llvm -mtriple=x86_64-linux-gnu -mattr=+avx2,+zzz", "no CPU feature 'zzz'", None),
     ("llvm -mtriple=x86_64-linux-gnu -mattr=avx2", "unknown target", "+avx2"),
     ({"kind": "llvm", "jit": "zzz"}, "unknown target", None),
     ({"kind": "llvm", "cl-opt": ["zzz"]}, "unknown target", None),
     ({"kind": "llvm", "mtriple": 5}, "unknown target", None),
     ({"kind": "llvm", "mattr": "+avx2"}, "unknown target", None),
     ({"kind": "cuda", "arch": "sm_80", "host": {"kind": "llvm", "mtriple": "zzz"}},
      "no architecture 'zzz'", None),
     (tvm.target.Target({"kind": "llvm", "mtriple": "zzz"}), "no architecture 'zzz'", None)],
)  # fmt: skip
def test_what_llvm_does_not_know_is_an_error_without_its_own_output(
    given: object, message: str, hint: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    with pytest.raises(NnefError) as caught:
        resolve(given)
    (found,) = caught.value.diagnostics
    assert message in found.message and found.hint
    assert hint is None or hint in found.hint
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "triple",
    ["x86_64-linux-gnu", "amd64-linux-gnu", "i686-linux-gnu", "arm64-apple-macos", "riscv32-elf",
     "thumbv7em-none-eabi", "powerpc64le-linux-gnu", "s390x-linux-gnu"],
)  # fmt: skip
def test_the_names_of_architectures_that_llvm_takes_are_taken(triple: str) -> None:
    assert resolve({"kind": "llvm", "mtriple": triple}).attrs["mtriple"] == triple


@pytest.mark.parametrize("feature", ["+avx2", "-avx2", "+rtm", "+soft-float"])
def test_features_that_no_cpu_has_by_default_are_taken(feature: str) -> None:
    target = resolve({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": [feature]})
    assert [str(item) for item in target.attrs["mattr"]] == [feature]

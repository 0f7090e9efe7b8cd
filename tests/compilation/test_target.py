"""What users call a target becomes a TVM target, or an error that helps."""

from __future__ import annotations

import pytest
import tvm

from tvm_nnef.compilation.target import SHORT_NAMES, request, resolve
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tvm_support.build import runs_here, target_features


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
    [("cpu", "'native' is the CPU"), ("gpu", "'cuda' or 'vulkan'"),
     ("nativ", "did you mean 'native'"), ("x86-64-v5", "did you mean 'x86-64-v"),
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
    found = str(resolve({"kind": "llvm", "mtriple": triple}).attrs["mtriple"])
    assert found.split("-")[0] == triple.split("-")[0]


@pytest.mark.parametrize(
    ("triple", "expected"),
    [("armv7l-linux-gnueabihf", "armv7l-unknown-linux-gnueabihf"),
     ("aarch64-linux-gnu", "aarch64-unknown-linux-gnu"),
     ("aarch64-linux", "aarch64-unknown-linux"), ("riscv32-elf", "riscv32-unknown-elf"),
     ("arm-none-eabihf", "arm-none-unknown-eabihf"), ("x86_64", "x86_64"),
     ("x86_64-pc-linux-gnu", "x86_64-pc-linux-gnu"), ("arm64-apple-macos", "arm64-apple-macos"),
     ("wasm32-unknown-unknown", "wasm32-unknown-unknown")],
)  # fmt: skip
def test_triples_get_the_parts_that_llvm_knows_by_position(triple: str, expected: str) -> None:
    """Expected: what ``llvm::Triple::normalize`` returns, if that changes the ABI."""
    described = {"kind": "llvm", "mtriple": triple}
    for given in (described, tvm.target.Target(described)):
        assert resolve(given).attrs["mtriple"] == expected
    hosted = {"kind": "cuda", "arch": "sm_80", "host": described}
    for given in (hosted, tvm.target.Target(hosted)):
        assert resolve(given).host.attrs["mtriple"] == expected


@pytest.mark.parametrize("feature", ["+avx2", "-avx2", "+rtm", "+soft-float"])
def test_features_that_no_cpu_has_by_default_are_taken(feature: str) -> None:
    target = resolve({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": [feature]})
    assert [str(item) for item in target.attrs["mattr"]] == [feature]


@pytest.mark.parametrize(
    ("name", "model", "present", "absent"),
    [("aarch64:cortex-a76", "cortex-a76", {"neon", "dotprod", "fullfp16"}, set()),
     ("aarch64:+dotprod,-ete", None, {"neon", "dotprod"}, {"ete"}),
     ("riscv64:+v,+zvl256b", "generic-rv64", {"d", "v", "zvl256b"}, {"zfh"}),
     ("armv7:cortex-a15,+fp16", "cortex-a15", {"neon", "vfp4"}, set()),
     ("x86-64-v3:-fma", "x86-64-v3", {"avx2"}, {"fma"}), ("wasm32", None, {"simd128"}, set())],
)  # fmt: skip
def test_a_colon_adds_a_model_and_features(
    name: str, model: str | None, present: set[str], absent: set[str]
) -> None:
    target = resolve(name)
    _, features = target_features(target)
    assert target.attrs.get("mcpu") == model
    assert present <= features and not absent & features


@pytest.mark.parametrize(
    ("name", "architectures"),
    [("cuda:sm_80,sm_90a", ("sm_80", "sm_90a")), ("cuda:sm_100,sm_75", ("sm_75", "sm_100")),
     ("cuda:sm_90a,sm_90,sm_90", ("sm_90", "sm_90a")), ("cuda:sm_86", ("sm_86",)),
     ({"kind": "cuda", "arch": "sm_89"}, ()), ("aarch64", ())],
)  # fmt: skip
def test_the_oldest_architecture_of_cuda_is_that_of_the_target(
    name: object, architectures: tuple[str, ...]
) -> None:
    found = request(name)
    assert found.cuda_architectures == architectures
    assert resolve(name).attrs.get("arch") == found.target.attrs.get("arch")
    assert found.target.attrs.get("arch") in architectures or not architectures


@pytest.mark.parametrize(
    ("name", "message"),
    [("cuda:", "no architecture ''"), ("cuda:sm_80,", "no architecture ''"),
     ("cuda:80", "no architecture '80'"), ("cuda:sm_80b", "no architecture 'sm_80b'"),
     ("cuda:sm_80, sm_90", "no architecture ' sm_90'"), ("aarch64:", "not a CPU model"),
     ("aarch64:a,b", "not a CPU model"), ("vulkan:x", "not a CPU model"),
     ("aarch64:cortex-a67", "no CPU 'cortex-a67'"), ("riscv64:+zzz", "no CPU feature 'zzz'"),
     ("native:+avx2", "unknown target"), ("spam:sm_80", "unknown target")],
)  # fmt: skip
def test_unknown_words_after_a_colon_are_errors_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(NnefError) as caught:
        request(name)
    (found,) = caught.value.diagnostics
    assert message in found.message and found.hint


def test_code_runs_here_if_the_cpu_has_its_instructions() -> None:
    host = dict(tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")())
    assert runs_here(resolve())
    triple, _ = target_features(resolve())
    absent = next(name for name, present in host.items() if not present)
    other = {"kind": "llvm", "mtriple": triple, "mattr": [f"+{absent}"]}
    assert not runs_here(resolve(other))
    assert runs_here(resolve({**other, "mattr": []}))
    for name in ("x86-64-v2", "x86-64-v3") if triple.startswith("x86_64") else ():
        assert runs_here(resolve(name)) or not host["avx2"]
    assert not runs_here(resolve("riscv64" if "aarch64" in triple else "aarch64"))
    assert not runs_here(resolve("cuda"))

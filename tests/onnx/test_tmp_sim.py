from __future__ import annotations
import os
from typing import Any
import pytest
import tvm_nnef
PARTS=[int(x) for x in os.environ.get("SIMPARTS","5 2").split()]
@pytest.fixture
def simulated(imported: Any, monkeypatch: Any) -> Any:
    from pathlib import Path
    module = imported(Path(__file__).parents[1]/"schedules"/"gpu"/"conftest.py")
    return module.simulated_gpu.__wrapped__(monkeypatch) if hasattr(module.simulated_gpu,'__wrapped__') else module.simulated_gpu.__pytest_wrapped__.obj(monkeypatch)
@pytest.mark.parametrize("part", PARTS)
def test_sim(part: int, suite: Any, expected_failures: Any, expected_compiled: Any, simulated: Any) -> None:
    simulated("sm_90")
    cases = [c for n, c in suite.items() if not n.startswith("light_")][part::25]
    for c in cases:
        if c.name in expected_failures or c.name in expected_compiled: continue
        print("CASE", c.name, flush=True)
        try:
            run = tvm_nnef.build(tvm_nnef.convert(c.model), progress=False)
            for i, o in c.feeds(): c.check(run(*i), o)
        except Exception as p:
            print("BAD", c.name, type(p).__name__, str(p)[:300], flush=True)

"""Garbage is searched for rarely while a model is compiled, and afterwards as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tvm_nnef.support.collection import rare_collection


@pytest.fixture(autouse=True)
def _default_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_thresholds_are_restored_after_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), rare_collection():
        assert gc.get_threshold() == (50_000, 10, 10)
        raise ValueError("inside")
    assert gc.get_threshold() == (700, 10, 10)


def test_a_search_that_is_off_stays_off() -> None:
    gc.set_threshold(0)
    with rare_collection():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0

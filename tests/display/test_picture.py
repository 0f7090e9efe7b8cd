"""The picture of a graph: nothing covers anything, and what belongs together is near."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

import pytest

import tvm_nnef
from tvm_nnef.display.layers import Layout, Point, layout_of
from tvm_nnef.display.picture import svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float

    def contains(self, point: Point) -> bool:
        """Whether a point lies inside, and not just at the border."""
        x, y = point
        inside = self.x + 1 < x < self.x + self.width - 1
        return inside and self.y + 1 < y < self.y + self.height - 1

    def overlaps(self, other: Rectangle) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


def points(path: Iterable[Point]) -> Iterable[Point]:
    """Points of a path, a pixel apart."""
    corners = list(path)
    for (x, y), (u, v) in pairwise(corners):
        steps = max(1, int(max(abs(u - x), abs(v - y))))
        yield from ((x + (u - x) * n / steps, y + (v - y) * n / steps) for n in range(steps + 1))


def rectangles(layout: Layout, sizes: list[Point]) -> list[Rectangle]:
    return [Rectangle(*at, *size) for at, size in zip(layout.places, sizes, strict=True)]


def network(chosen: random.Random) -> tuple[list[Point], list[tuple[int, int]]]:
    """A chain of boxes that read constants, and some of which have skip connections."""

    def size() -> Point:
        return chosen.randrange(20, 200), chosen.randrange(15, 90)

    sizes, edges, chain = [size()], [], [0]
    for _ in range(chosen.randrange(3, 12)):
        constants = chosen.randrange(4)
        box = len(sizes) + constants
        edges += [(len(sizes) + n, box) for n in range(constants)] + [(chain[-1], box)]
        if len(chain) > 2:
            edges.append((chosen.choice(chain[:-1]), box))
        sizes += [size() for _ in range(constants + 1)]
        chain.append(box)
    return sizes, edges


@pytest.mark.parametrize("seed", range(12))
def test_no_line_crosses_a_box_and_no_box_another(seed: int) -> None:
    sizes, edges = network(random.Random(seed))
    layout = layout_of(sizes, edges)
    boxes = rectangles(layout, sizes)
    for n, box in enumerate(boxes):
        assert box.x >= 0 and box.x + box.width <= layout.width
        assert box.y >= 0 and box.y + box.height <= layout.height
        assert not any(box.overlaps(other) for other in boxes[:n])
    for path, (source, target) in zip(layout.paths, edges, strict=True):
        assert boxes[source].y + boxes[source].height < boxes[target].y, "lines lead downwards"
        assert not any(box.contains(point) for point in points(path) for box in boxes)


@pytest.mark.slow
def test_a_long_chain_needs_no_deep_recursion() -> None:
    layout = layout_of([(10, 10)] * 1500, [(n, n + 1) for n in range(1499)])
    assert len({x for x, _ in layout.places}) == 1


SKIP = """
import layout, math, nn;
graph Net {
    @input { image: real[1, 8, 16, 16]; k: real[8, 8, 3, 3]; }
    @output { y: real[1, 8, 16, 16]; }
    @compose {
        c = layout.uniform{shape=[1, 8, 16, 16]}(0.5);
        a = nn.conv{padding=1}(image, k);
        r = nn.relu(a);
        b = nn.conv{padding=1}(r, k);
        s = math.add(b, image);
        t = nn.relu(s);
        y = math.add(t, c);
    }
}
"""


def test_a_skip_connection_passes_beside_the_boxes() -> None:
    root = ElementTree.fromstring(svg(tvm_nnef.compose(SKIP)))
    boxes = [
        Rectangle(*(float(each.get(name, "")) for name in ("x", "y", "width", "height")))
        for each in root.iter(f"{NAMESPACE}rect")
        if str(each.get("class")).startswith("box")
    ]
    paths = [each.get("d", "") for each in root.iter(f"{NAMESPACE}path") if each.get("class")]
    assert (len(boxes), len(paths)) == (10, 11)
    for path in paths:
        numbers = [float(each) for each in re.findall(r"-?[0-9.]+", path)]
        corners = list(zip(numbers[::2], numbers[1::2], strict=True))
        assert not any(box.contains(point) for point in points(corners) for box in boxes)


def test_a_constant_is_just_above_its_reader() -> None:
    root = ElementTree.fromstring(svg(tvm_nnef.compose(SKIP)))
    rows = {each.text: float(each.get("y", "")) for each in root.iter(f"{NAMESPACE}text")}
    assert rows["c"] == rows["t"] > rows["s"]

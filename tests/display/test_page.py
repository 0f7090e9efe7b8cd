"""The page of a graph: its data, and in a browser what a user can do with it."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.display.page import page
from tvm_nnef.display.page_data import page_data
from tvm_nnef.display.statistics import statistics_of

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"

BLOCKS = """
import layout, math, nn;
public operator inner {
    @input { x: real[n, c, h, w]; }
    @output { y: real[n, c, h, w]; }
    @compose { s = nn.sigmoid(x); y = math.mul(s, x); }
}
public operator block {
    @input { x: real[n, c, h, w]; }
    @output { y: real[n, c, h, w]; }
    @variable { k: real[c, c, 3, 3]; }
    @compose {
        a = nn.conv{padding=1}(x, k);
        b = inner(a);
        r = nn.relu(b);
        t = math.tanh(r);
        u = math.abs(t);
        y = math.add(u, x);
    }
}
graph Net {
    @input { image: real[1, 8, 16, 16]; stop: bool[]; }
    @output { y: real[1, 8, 16, 16]; }
    @compose {
        one = b1: block(image);
        two = b2: block(one);
        c = layout.uniform{shape=[1, 8, 16, 16]}(0.5);
        last = if stop then two else { t = math.add(two, c); yield t; };
        y = nn.relu{max=6.0}(last);
    }
}
"""


def embedded(text: str) -> Any:
    """The data of a page, as a browser finds them."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def nodes_of(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for body in node.get("bodies", ()):
            yield from nodes_of(body["nodes"])


def test_the_page_has_sources_statistics_and_numbers() -> None:
    model = tvm_nnef.load_model(str(DIGITS))
    data = embedded(page(tvm_nnef.compose(model), model))
    conv = data["graph"][0]
    line = (DIGITS / "main.sknd").read_text().splitlines()[conv["source"][0]["line"] - 1]
    assert conv["source"][0]["text"] == line and "conv1" in line
    assert conv["source"][0]["file"].endswith("main.sknd")
    assert (conv["attributes"], conv["multiplyAdds"]) == ("{padding=1}", "9,216")
    assert ["stride", "[1, 1]"] in conv["table"]
    kernel = data["tensors"][conv["weights"][0]]
    values = model.variables["main.Digits.kernel1"]
    assert float(kernel["statistics"]["mean"]) == pytest.approx(values.mean(), rel=1e-4)
    assert kernel["type"] == "float32[16, 1, 3, 3]"
    assert data["totals"]["parameters"].startswith("13,706 ")


def test_operations_have_their_names_in_the_source(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx.helper")
    node = helper.make_node("Relu", ["x"], ["y"], name="relu_7")
    ports = [helper.make_tensor_value_info(each, 1, [2]) for each in "xy"]
    file = tmp_path / "net.onnx"
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    file.write_bytes(helper.make_model(graph).SerializeToString())
    model = tvm_nnef.load_model(str(file))
    (found,) = embedded(page(tvm_nnef.compose(model), model))["graph"]
    assert found["origin"] == "Relu relu_7"
    assert found["source"][0]["file"] == "main.sknd of net.onnx"


def test_statistics_of_weights() -> None:
    values = np.random.default_rng(0).standard_normal(3 << 20).astype("float32")
    values[::4] = 0
    found = statistics_of(values.reshape(3, -1))
    for name in ("min", "max", "mean", "std"):
        assert float(found[name]) == pytest.approx(getattr(np, name)(values, dtype="float64")
            if name in ("mean", "std") else getattr(np, name)(values), rel=1e-5)  # fmt: skip
    assert found["zeros"] == "25.0%"
    assert statistics_of(np.zeros((0, 3))) == {}
    assert statistics_of(np.array([1.0, np.nan]))["max"] == "nan"
    assert statistics_of(np.array([True, False]))["mean"] == "0.5"


def test_operands_lead_through_composites_to_what_computes_them() -> None:
    data = page_data(tvm_nnef.compose(BLOCKS))
    computed = {result for node in nodes_of(data["graph"]) for result in node["results"]}
    given = {each for port in data["inputs"] for each in port["tensors"]}
    for node in nodes_of(data["graph"]):
        assert set(node["operands"]) <= computed | given, node["name"]
        for outer, inner in node.get("inner", ()):
            assert outer in computed and set(inner) <= computed | given


LOOP = """
import math, nn;
graph G {
    @input { x: real[2, 8]; w: real[8, 8]; n: int[]; xs: real[2, 8]..(3); }
    @output { y: real[2, 8]; zs: real[2, 8]..(3); }
    @compose {
        v, zs = with a = x for each : xs do..(i -> n) {
            t = nn.linear(a, w); u = math.add(t, each); yield u, t;
        };
        y = with b = v while math.lt(n, 3) do..(5) math.neg(b);
    }
}
"""


def test_loops_lead_to_what_they_start_with() -> None:
    data = page_data(tvm_nnef.compose(LOOP))
    names = [each["name"].rpartition(".")[2] for each in data["tensors"]]
    (loop, *_) = data["graph"]
    inner = {names[outer]: [names[each] for each in found] for outer, found in loop["inner"]}
    assert inner["a"] == ["x"] and len(inner["each"]) == 3 and "u" in inner["v"]


def test_times_belong_to_operations_by_name(tmp_path: Path) -> None:
    file, profile = tmp_path / "m.html", tmp_path / "p.json"
    rows = [{"name": "main.Digits.conv1", "operator": "nn.conv", "seconds": 0.25}]
    profile.write_text(json.dumps({"operations": rows}))
    assert main(["show", str(DIGITS), "--html", str(file), "--profile", str(profile)]) == 0
    seconds = {node["label"]: node.get("seconds") for node in embedded(file.read_text())["graph"]}
    assert seconds["conv1"] == 0.25 and seconds["conv2"] is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"operations": [{"name": "x"}]}',
        "[" * 100000,
        '{"operations": [{"name": "x", "seconds": -1}]}',
        '{"operations": [{"name": 1, "seconds": []}]}',
    ],
)
def test_what_is_no_profile_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.json"
    profile.write_text(text)
    assert main(["show", str(DIGITS), "--html", "-", "--profile", str(profile)]) == 1
    shown = capsys.readouterr()
    assert "p.json: error: " in shown.err and "hint: " in shown.err and not shown.out


def test_a_profile_needs_a_page_and_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["--profile", "p.json"], ["--html", "-", "--profile", "absent.json"]):
        assert main(["show", str(DIGITS), *given]) == 1
        shown = capsys.readouterr()
        assert "hint: " in shown.err and not shown.out


HOSTILE = """</script><script>alert(1)</script><!--"' &amp; <img src=x onerror=alert(1)>"""


def hostile(tmp_path: Path) -> str:
    """A page whose source lines and file name have what ends elements and strings."""
    folder = tmp_path / "<b>'x'&"
    folder.mkdir()
    text = (
        "import nn;\ngraph G { @input { x: real[2]; } @output { y: real[2]; }\n"
        f"@compose {{ y = nn.relu(x); # {HOSTILE}\n}} }}\n"
    )
    (folder / "main.sknd").write_text(text)
    file = tmp_path / "hostile.html"
    assert main(["show", str(folder), "--html", str(file)]) == 0
    return file.read_text()


def test_texts_of_a_model_cannot_leave_the_data(tmp_path: Path) -> None:
    text = hostile(tmp_path)
    assert "<script>alert" not in text and "<img" not in text and "<b>" not in text
    assert text.count("</script>") == 3, "the data, the layout library, the page's own"
    assert HOSTILE in embedded(text)["graph"][0]["source"][0]["text"]


# ---------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; it logs what it prints and what it loads."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    for each in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage",
                 "window-size=1400,1000", "disable-background-networking"):  # fmt: skip
        options.add_argument(f"--{each}")
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    opened = webdriver.Chrome(options=options, service=service)
    yield opened
    opened.quit()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Open a page from its text; afterwards nothing was logged, and only the file was loaded."""
    file = tmp_path / "page.html"

    def visited(text: str) -> Any:
        file.write_text(text, encoding="utf-8")
        browser.get_log("performance")
        browser.get_log("browser")
        browser.get(file.as_uri())
        return browser

    yield visited
    if not file.exists():
        return
    assert browser.get_log("browser") == []
    events = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    loaded = [each["params"]["request"]["url"] for each in events
              if each["method"] == "Network.requestWillBeSent"]  # fmt: skip
    assert [url for url in loaded if not url.startswith("data:")] == [file.as_uri()]


def names(browser: Any, kind: str = "node") -> list[str]:
    return list(browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.dataset.name)",
        f".{kind}[data-name]"))  # fmt: skip


def edges_of(browser: Any, tensor: str) -> int:
    script = "return document.querySelectorAll(`.edge[data-tensor='${arguments[0]}']`).length"
    return int(browser.execute_script(script, tensor))


def click(browser: Any, name: str, inner: str = "") -> None:
    browser.execute_script(
        "document.querySelector(`[data-name='${arguments[0]}'] ${arguments[1]}`)"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))", name, inner or ".box",
    )  # fmt: skip


CROSSINGS = """
const boxes = [...document.querySelectorAll(".node")].map((node) => {
  const [x, y] = node.getAttribute("transform").match(/-?[0-9.e]+/g).map(Number);
  const box = node.querySelector(".box");
  return {name: node.dataset.name, x, y, right: x + +box.getAttribute("width"),
          below: y + +box.getAttribute("height")};
});
const found = [];
for (const path of document.querySelectorAll(".edge path")) {
  const length = path.getTotalLength();
  for (let at = 3; at < length - 3; at += 1) {
    const {x, y} = path.getPointAtLength(at);
    for (const box of boxes) {
      if (x > box.x + 1 && x < box.right - 1 && y > box.y + 1 && y < box.below - 1) {
        found.push(`${path.parentNode.dataset.tensor} crosses ${box.name}`);
      }
    }
  }
}
return [document.querySelectorAll(".edge").length, [...new Set(found)]];
"""


@pytest.mark.slow
def test_composites_open_and_close_and_no_edge_crosses_a_box(visit: Callable[[str], Any]) -> None:
    browser = visit(page(tvm_nnef.compose(BLOCKS)))
    net = "main.Net."
    assert {f"{net}one", f"{net}two"} <= set(names(browser, "cluster")), "small graphs are open"
    assert f"{net}b1.a" in names(browser)
    for button in (None, "expand", "collapse"):
        if button:
            browser.execute_script(f"document.getElementById('{button}').click()")
        edges, crossings = browser.execute_script(CROSSINGS)
        assert crossings == []
        assert edges >= 7, button
    assert names(browser, "cluster") == [] and f"{net}b1.a" not in names(browser)
    click(browser, f"{net}one", ".toggle rect")
    assert names(browser, "cluster") == [f"{net}one"] and f"{net}b1.a" in names(browser)
    # Out of the input go the convolution and the skip connection, each to its own end.
    assert edges_of(browser, "main.Net.image") == 2
    assert edges_of(browser, "main.Net.stop") == 1
    click(browser, f"{net}last", ".toggle rect")
    assert edges_of(browser, "main.Net.stop") == 1
    click(browser, f"{net}last", ".toggle rect")
    click(browser, f"{net}one", ".toggle rect")
    assert names(browser, "cluster") == []


@pytest.mark.slow
def test_no_edge_of_real_networks_crosses_a_box(visit: Callable[[str], Any]) -> None:
    skips = " ".join(f"r{n + 1} = nn.relu(r{n}); a{n + 1} = math.add(r{n + 1}, a{n // 3});"
                     for n in range(30))  # fmt: skip
    text = (
        "import math, nn;\ngraph G { @input { x: real[4]; } @output { a30: real[4]; } "
        f"@compose {{ r0 = nn.relu(x); a0 = math.tanh(x); {skips} }} }}\n"
    )
    browser = visit(page(tvm_nnef.compose(text)))
    edges, crossings = browser.execute_script(CROSSINGS)
    assert edges == 2 + 3 * 30 + 1 and crossings == []


@pytest.mark.slow
def test_search_finds_what_is_closed(visit: Callable[[str], Any]) -> None:
    browser = visit(page(tvm_nnef.compose(BLOCKS)))
    browser.execute_script("document.getElementById('collapse').click()")
    field = browser.find_element("id", "search")
    field.send_keys("b2 sigmoid")
    found = browser.find_elements("css selector", "#found li")
    assert [each.text.split() for each in found] == [["s", "nn.sigmoid"]]
    field.send_keys("\ue007")
    selected = browser.find_element("css selector", ".node.selected")
    assert str(selected.get_attribute("data-name")).endswith(".s")
    panel = browser.find_element("id", "details").text
    assert "nn.sigmoid" in panel and "<text>:6" in panel and "s = nn.sigmoid(x)" in panel
    assert "float32[1, 8, 16, 16]" in panel
    where, view = selected.rect, browser.find_element("id", "view").rect
    assert view["x"] < where["x"] < view["x"] + view["width"], "it is in sight"
    field.clear()
    field.send_keys("nothing of that name")
    assert "nothing found" in browser.find_element("id", "found").text


@pytest.mark.slow
def test_the_view_zooms_and_moves(visit: Callable[[str], Any]) -> None:
    browser = visit(page(tvm_nnef.compose(BLOCKS)))
    world = browser.find_element("id", "world")

    def scale() -> float:
        return float(str(world.get_attribute("transform")).rpartition("scale(")[2].rstrip(")"))

    before = scale()
    browser.find_element("id", "in").click()
    assert scale() == pytest.approx(1.25 * before)
    browser.execute_script(
        "document.getElementById('view').dispatchEvent(new WheelEvent('wheel', {deltaY: 200}))"
    )
    assert scale() < 1.25 * before
    browser.find_element("id", "fit").click()
    assert scale() == pytest.approx(before)
    from selenium.webdriver import ActionChains

    view = browser.find_element("id", "view")
    here = world.get_attribute("transform")
    chain = ActionChains(browser).move_to_element_with_offset(view, -300, 200)
    chain.click_and_hold().move_by_offset(80, 40).release().perform()
    assert world.get_attribute("transform") != here and scale() == pytest.approx(before)


@pytest.mark.slow
def test_weights_and_times_are_shown(visit: Callable[[str], Any]) -> None:
    model = tvm_nnef.load_model(str(DIGITS))
    times = {"main.Digits.conv1": 2e-3, "main.Digits.conv2": 1e-3}
    browser = visit(page(tvm_nnef.compose(model), model, times))
    assert "conv1" in browser.find_element("id", "details").text, "the slowest operations"
    click(browser, "main.Digits.conv1")
    panel = browser.find_element("id", "details").text
    for words in ("kernel1", "padding_align", "mean", "zeros", "2.00 ms · 66.7 %", "9,216"):
        assert words in panel
    colours = browser.execute_script(
        "return ['conv1', 'conv2', 'relu1'].map((name) => getComputedStyle("
        "document.querySelector(`[data-name='main.Digits.${name}'] .box`)).fill)"
    )
    assert len(set(colours)) == 3, "the slower, the warmer"


@pytest.mark.slow
def test_hostile_texts_stay_texts(visit: Callable[[str], Any], tmp_path: Path) -> None:
    browser = visit(hostile(tmp_path))
    click(browser, "main.G.y")
    panel = browser.find_element("id", "details")
    assert HOSTILE in panel.text
    assert panel.find_elements("css selector", "img, script, b") == []


@pytest.mark.slow
def test_thousands_of_operations_come_in_groups(visit: Callable[[str], Any]) -> None:
    chain = " ".join(f"a{n + 1} = nn.relu(a{n});" for n in range(2500))
    text = (
        "import nn;\ngraph G { @input { a0: real[4]; } @output { a2500: real[4]; } "
        f"@compose {{ {chain} }} }}\n"
    )
    browser = visit(page(tvm_nnef.compose(text)))
    first = names(browser)
    assert len(first) < 40, "what the screen has room for"
    field = browser.find_element("id", "search")
    field.send_keys("a1234\ue007")
    selected = browser.find_element("css selector", ".node.selected")
    assert selected.get_attribute("data-name") == "main.G.a1234"
    assert len(first) < len(names(browser)) < 400


@pytest.mark.slow
def test_a_link_leads_to_an_operation(visit: Callable[[str], Any]) -> None:
    browser = visit(page(tvm_nnef.compose(BLOCKS)))
    click(browser, "main.Net.y")
    assert browser.current_url.endswith("#y")
    browser.execute_script("document.getElementById('collapse').click(); location.hash = 'b2.b.s'")
    selected = browser.find_element("css selector", ".node.selected")
    assert selected.get_attribute("data-name") == "main.Net.b2.b.s"
    assert browser.find_element("id", "details").text.startswith("nn.sigmoid")


EXPORTED = """
const [button, done] = arguments;
URL.createObjectURL = (blob) => {
  const reader = new FileReader();
  reader.onload = () => done([blob.type, reader.result]);
  reader.readAsDataURL(blob);
  return "data:,";
};
HTMLAnchorElement.prototype.click = function () {};
document.getElementById(button).click();
"""


@pytest.mark.slow
def test_the_picture_is_saved_as_svg_and_png(visit: Callable[[str], Any]) -> None:
    browser = visit(page(tvm_nnef.compose(BLOCKS)))
    kind, svg = browser.execute_async_script(EXPORTED, "svg")
    text = base64.b64decode(svg.partition(",")[2]).decode()
    assert kind == "image/svg+xml" and "nn.sigmoid" in text and "--product" in text
    ElementTree.fromstring(text)
    kind, png = browser.execute_async_script(EXPORTED, "png")
    assert kind == "image/png" and base64.b64decode(png.partition(",")[2])[:4] == b"\x89PNG"


@pytest.mark.slow
def test_the_panel_and_the_map(visit: Callable[[str], Any]) -> None:
    from selenium.webdriver import ActionChains

    chain = " ".join(f"a{n + 1} = nn.relu(a{n});" for n in range(80))
    long = "w" * 90
    text = (
        f"import nn;\ngraph G {{ @input {{ a0: real[4]; {long}: real[4]; }} "
        f"@output {{ a80: real[4]; z: real[4]; }} @compose {{ {chain} z = nn.relu({long}); }} }}\n"
    )
    browser = visit(page(tvm_nnef.compose(text)))
    details, divider = (browser.find_element("id", each) for each in ("details", "divider"))
    click(browser, "main.G.z")
    wide = "return [arguments[0].scrollWidth, arguments[0].clientWidth]"
    scroll, inner = browser.execute_script(wide, details)
    assert scroll <= inner, "long names are wrapped"
    before = details.size["width"]
    ActionChains(browser).drag_and_drop_by_offset(divider, -150, 0).perform()
    assert details.size["width"] > before + 100
    small = browser.find_element("id", "map")
    world = browser.find_element("id", "world")
    here = world.get_attribute("transform")
    assert len(browser.find_elements("css selector", "#boxes rect")) == 80 + 1 + 4
    ActionChains(browser).move_to_element_with_offset(small, 0, 90).click().perform()
    assert world.get_attribute("transform") != here
    colours = browser.execute_script(
        "return ['main.G.z', 'a0'].map((name) => getComputedStyle("
        "document.querySelector(`[data-name='${name}'] .head`)).fill)"
    )
    assert len({*colours}) == 2, "titles have the colour of their kind"

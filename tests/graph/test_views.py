"""Views of plans: the same text on every machine, pictures without overlaps, and all of a plan in them."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim
from pypto.graph import parse_plan
from pypto.graph.plan.plan import Plan
from pypto.graph.views.arena import live_bytes
from pypto.graph.views.diagram import Arrow, Box, Cluster
from pypto.graph.views.drawing import Drawing
from pypto.graph.views.execution import dependencies
from pypto.graph.views.layers import Item, Link, layered
from pypto.graph.views.measured import PlanProfile, StepTime
from pypto.graph.views.placement import place
from pypto.graph.views.tensor_graph import graph_drawing
from tests.browser import asked, needs_browser

GOLDEN = Path(__file__).with_name("golden")
X = np.random.default_rng(0).standard_normal((50, 64), np.float32)
W = np.random.default_rng(1).standard_normal((64, 96), np.float32)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan that does not depend on the machine: it is read from its text."""
    return parse_plan((GOLDEN / "layer.plan").read_text(encoding="utf-8"))


def sample() -> PlanProfile:
    steps = (
        StepTime(0, "rows_1", "rows", "layers.py:3-4", (4,), 100, 2500, 4096),
        StepTime(1, "concat by numpy", "numpy", "layers.py:5", (1,), 2700, 1_300_000, 128),
    )
    return PlanProfile("layer", steps, ((0, 1, "%4 f32[32, 32]"),))


def texts(plan: Plan) -> dict[str, str]:
    found = {f"{name}.svg": plan.drawing(name).svg for name in ("tensor", "execution", "arena")}
    found |= {f"{name}.dot": str(plan.drawing(name)) for name in ("tensor", "execution")}
    return found | {"timeline.json": sample().timeline_text() + "\n"}


@pytest.mark.parametrize(
    "name", ["tensor.svg", "execution.svg", "arena.svg", "tensor.dot", "execution.dot", "timeline.json"]
)
def test_golden_text(name: str, plan: Plan, update_golden: bool) -> None:
    text, file = texts(plan)[name], GOLDEN / f"layer.{name}"
    if update_golden:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), "see the change with `git diff` after `pytest --update-golden`"


@pytest.mark.parametrize("name", ["tensor", "execution", "arena"])
def test_a_picture_is_xml_and_within_its_frame(name: str, plan: Plan) -> None:
    root = ElementTree.fromstring(plan.drawing(name).svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    rects = [e for e in root.iter() if e.tag.endswith("}rect")]
    assert rects
    for rect in rects:
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width + 0.1
        assert 0 <= y <= y + h <= height + 0.1


def overlap(a: Any, b: Any) -> bool:
    return bool(a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height)


def test_boxes_do_not_overlap_and_lie_in_their_clusters(plan: Plan) -> None:
    drawing = plan.drawing("tensor")
    assert isinstance(drawing, Drawing)
    at = place(drawing)
    assert not [pair for pair in combinations(at.boxes.values(), 2) if overlap(*pair)]
    assert not [pair for pair in combinations(at.clusters.values(), 2) if overlap(*pair)]
    for box in drawing.boxes:
        inner = at.boxes[box.name]
        for name, outer in at.clusters.items():
            assert overlap(inner, outer) is (box.cluster == name)
    for arrow, points in at.routes:
        first, last = at.boxes[arrow.source], at.boxes[arrow.target]
        assert points[0] == pytest.approx((first.x + first.width / 2, first.y + first.height))
        assert points[-1] == pytest.approx((last.x + last.width / 2, last.y))
        assert all(a[1] <= b[1] + 1e-6 for a, b in pairwise(points)), "an arrow leads downwards"


def test_all_of_a_plan_is_in_its_pictures(plan: Plan) -> None:
    tensor, execution = plan.drawing("tensor"), plan.drawing("execution")
    assert isinstance(tensor, Drawing)
    assert isinstance(execution, Drawing)
    numbers = {int(box.name.rpartition("n")[2]) for box in tensor.boxes if not box.name.startswith("result")}
    computed = {n.number for s in plan.steps for n in s.nodes}
    assert computed <= numbers
    assert [c.title.split()[1] for c in tensor.clusters] == [
        s.kernel.name if s.kernel else s.nodes[-1].op for s in plan.steps
    ]
    assert {(a.source, a.target) for a in execution.arrows} == {
        (f"step{a}", f"step{b}") for a, b, _ in dependencies(plan.steps)
    }
    assert "stored: 18.8 KB" in tensor.svg
    assert "maximum ·, 0" in tensor.svg


def test_live_bytes_follow_lifetimes(plan: Plan) -> None:
    live = live_bytes(plan)
    assert len(live) == len(plan.steps)
    assert max(live) <= plan.arena_bytes
    assert live[0] == 50 * 96 * 4


@pytest.mark.parametrize("shape", ["chain", "tree", "mesh", "skips"])
def test_layers_order_links_downwards(shape: str) -> None:
    count = 14
    links = {
        "chain": [(n, n + 1) for n in range(count - 1)],
        "tree": [(n, m) for n in range(count) for m in (2 * n + 1, 2 * n + 2) if m < count],
        "mesh": [(n, m) for n in range(count) for m in range(n + 1, count) if (n * m) % 5 == 1],
        "skips": [(0, n) for n in range(1, count)] + [(n, n + 1) for n in range(1, count - 1)],
    }[shape]
    items = [Item(20 + 7 * (n % 4), 10 + 5 * (n % 3)) for n in range(count)]
    found = layered(items, [Link(*pair) for pair in links])
    for a, b in links:
        assert found.y[a] + items[a].height < found.y[b]
    for a, b in combinations(range(count), 2):
        apart_x = abs(found.x[a] - found.x[b]) >= (items[a].width + items[b].width) / 2
        apart_y = found.y[a] + items[a].height <= found.y[b] or found.y[b] + items[b].height <= found.y[a]
        assert apart_x or apart_y
    assert layered(items, [Link(*pair) for pair in links]) == found


def test_layers_uncross_links() -> None:
    found = layered([Item(10, 10)] * 6, [Link(0, 5), Link(1, 4), Link(2, 3)])
    below = [found.x[n] for n in (5, 4, 3)]
    assert np.argsort(below).tolist() == np.argsort([found.x[n] for n in (0, 1, 2)]).tolist()


def test_an_empty_picture_and_text_that_has_to_be_escaped() -> None:
    assert "<svg" in Drawing("nothing", "", ()).svg
    box = Box("a", 'x < "y"\\', "<b>", ("& more",), tip="a\nb", cluster="c")
    drawing = Drawing("<i>", "", (box, Box("b", "sum")), (Arrow("a", "b", '"'),), (Cluster("c", "<c>"),))
    ElementTree.fromstring(drawing.svg)
    assert r'label="x < \"y\"\\  <b>\l& more\l", tooltip="a\nb"' in drawing.dot


def test_pictures_are_written_by_suffix(plan: Plan, tmp_path: Path) -> None:
    for name in ("tensor.svg", "tensor.dot"):
        written = plan.drawing("tensor").save(tmp_path / name)
        assert written.read_text(encoding="utf-8") == texts(plan)[name]
    with pytest.raises(ValueError, match=r"written as \.svg or \.dot, not as 'x\.png'"):
        plan.drawing("tensor").save(tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"written as \.svg, not as 'x\.dot'"):
        plan.drawing("arena").save(tmp_path / "x.dot")
    with pytest.raises(ValueError, match="there is no picture 'block' of a plan; there are tensor, execution, arena"):
        plan.drawing("block")


def test_inputs_go_by_name_and_weights_stand_where_they_are_read() -> None:
    fused = pto.fuse(lambda x, net: np.tanh(x @ net["weight"] + net["bias"]))
    drawing = fused.plan(X, {"weight": W, "bias": W[0]}).drawing("tensor")
    assert isinstance(drawing, Drawing)
    titles = [box.title for box in drawing.boxes]
    assert titles == ["x", "dot", "add", "tanh", "result"]
    assert drawing.boxes[1].rows == ("net.weight  f32[64, 96]",)
    assert drawing.boxes[2].rows == ("net.bias  f32[96]",)


def test_a_graph_alone_and_dimensions_by_name() -> None:
    n = Dim("n", 1, 1000, hint=50)
    fused = pto.fuse(lambda x: (np.exp(x).sum(axis=1), x.T), dims={"x": (n, None)})
    plan = fused.plan(X)
    assert "f32[n, 64]" in plan.drawing("tensor").svg
    assert "in the arena" in plan.html() or "a result" in plan.html()
    alone = graph_drawing(plan.graph)
    assert [box.title for box in alone.boxes if box.cluster] == []
    assert "exp" in alone.dot


def test_a_profile_times_every_step() -> None:
    def f(x: Any, w: Any) -> Any:
        y = np.exp(x) @ w
        return np.concatenate([y[:, ::2], y[:, 1::2]], axis=1) + y.mean()

    fused = pto.fuse(f)
    before = X.copy()
    found = fused.profile(X, W)
    plan = fused.plan(X, W)
    np.testing.assert_array_equal(X, before)
    assert [s.number for s in found.steps] == list(range(len(plan.steps)))
    ends = [(s.start_ns, s.start_ns + s.wall_ns) for s in found.steps]
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
    events = json.loads(found.timeline_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in slices] == [s.kernel for s in found.steps]
    assert all("test_views.py:" in e["args"]["lines"] for e in slices)
    counted = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    assert counted == [*live_bytes(plan), 0]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    for end in (e for e in events if e["ph"] == "f"):
        assert starts[end["id"]]["ts"] <= end["ts"]
    assert len(starts) == len(found.edges)
    assert str(found).startswith(f"f: {len(plan.steps)} steps in ")


def test_a_profile_is_written(tmp_path: Path) -> None:
    path = sample().timeline(tmp_path / "x.json")
    assert json.loads(path.read_text(encoding="utf-8"))["displayTimeUnit"] == "ns"


def test_cards_of_functions_and_plans() -> None:
    @pto.fuse
    def layer(x: Any, w: Any) -> Any:
        """A layer of <b>bold</b> claims."""
        return np.maximum(x @ w, 0)

    assert "Not traced yet" in layer._repr_html_()
    plan = layer.plan(X, W)
    html = layer._repr_html_()
    for word in ("layer(x: Any, w: Any)", "x: f32[50, 64]", "&lt;b&gt;bold", "with the first call", "1 step, 1 kernel"):
        assert word in re.sub(r"</?span[^>]*>", "", html)
    bundle = plan._repr_mimebundle_()
    assert bundle["text/plain"].startswith("plan of layer")
    assert "from arrays to kernels" not in bundle["text/html"]


@needs_browser
@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """No script fails, every view can be opened, and a line of the function lights what came of it."""

    def layer(x: Any, w: Any) -> Any:
        y = np.exp(x) @ w
        z = y - y.mean()
        return z / 2

    page = pto.fuse(layer).plan(X, W).save(tmp_path / "x.html")
    found = asked(
        page,
        """
        const buttons=[...document.querySelectorAll(".heads button")];
        const open=buttons.map(b=>{b.click();
          return [...document.querySelectorAll("[data-level]")].filter(v=>!v.hidden).map(v=>v.dataset.level).join()});
        const line=[...document.querySelectorAll(".source .line")].find(l=>l.dataset.line);
        line.dispatchEvent(new MouseEvent("mouseover",{bubbles:true}));
        const lit=document.querySelectorAll(".graph .lit").length;
        buttons[2].click();
        const svg=document.querySelector("[data-level='Tensor graph'] svg"), before=svg.clientWidth;
        document.querySelector("[data-level='Tensor graph'] button[data-zoom]").click();
        return {open, lit, grown: svg.clientWidth/before}
        """,
    )
    assert found["errors"] == []
    assert found["open"] == ["steps", "execution graph", "Tensor graph", "arena", "kernels"]
    assert found["lit"] >= 1
    assert found["grown"] == pytest.approx(1.25, abs=0.02)


def test_a_kernel_of_a_plan_is_inspected() -> None:
    fused = pto.fuse(lambda x, w: np.concatenate([np.exp(x) @ w, x @ w], axis=0) * 2)
    plan = fused.plan(X, W)
    kinds = [s.kernel is not None for s in plan.steps]
    found = fused.inspect(X, W, step=kinds.index(True))
    assert found.kernel == next(s.kernel.name for s in plan.steps if s.kernel)
    assert "loop-ir" in [level.name for level in found.levels]
    assert "block-ir" in [level.name for level in fused.inspect(X, W, target="ascend910b2").levels]
    with pytest.raises(ValueError, match="there is no step 9"):
        fused.inspect(X, W, step=9)
    with pytest.raises(ValueError, match="numpy makes the array"):
        fused.inspect(X, W, step=kinds.index(False))

"""torch.compile with the backend `pypto-inductor`: what it is to its user."""

# mypy: ignore-errors

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pypto as pto
from pypto.errors.inductor import ChangedInside, WrongSetting
from tests.house.measure import ROOT

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

GROUP = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]


def backend():
    from pypto.torch.inductor.backend import pypto_inductor

    return pypto_inductor


def beside(*folders):
    """The search path of a process: pypto, some folders, and wherever torch is found here."""
    return os.pathsep.join(filter(None, (str(ROOT), *map(str, folders), os.environ.get("PYTHONPATH"))))


def normed(x):
    return torch.nn.functional.layer_norm(x.relu(), (x.shape[-1],)) * 2


NORMED = "return torch.nn.functional.layer_norm(x.relu(), (x.shape[-1],)) * 2"


@pytest.mark.slow
def test_forward_and_backward():
    import pypto.torch

    fast = torch.compile(normed, backend=backend(), fullgraph=True)
    x = torch.randn(5, 70, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    torch.testing.assert_close(fast(x), normed(y))
    assert len(pypto.torch.kernels(fast)) == 1
    fast(x).square().sum().backward()
    normed(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)
    forward, backward = pypto.torch.kernels(fast)
    assert forward.name.startswith("triton_per_fused")
    assert "layer_norm_backward" in backward.name
    assert f"def {forward.name}(" in forward.source
    for kernel in (forward, backward):
        assert [line.text for line in kernel.lines] == [NORMED]
        assert Path(kernel.lines[0].file) == Path(__file__)
    with pto.profile() as prof:
        fast(x)
    (row,) = (row for row in prof.rows if row.level == "kernel")
    assert row.kernel == forward.kernel.signature.kernel
    assert row.origins == (str(forward.lines[0]),)
    assert f"test_inductor.py:{forward.lines[0].number}  {NORMED[:20]}" in str(prof)


@pytest.mark.slow
def test_sizes_that_change_need_no_new_graph():
    fast = torch.compile(normed, backend=backend(), fullgraph=True, dynamic=True)
    for rows, columns in ((3, 70), (8, 70), (8, 300), (1000, 9)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(fast(x), normed(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_settings_are_as_before():
    from torch._inductor import config
    from torch._inductor.codegen import common

    common.init_backend_registration()
    before = config.cpu_backend, config.compile_threads, common.device_codegens["cpu"]
    tag = torch.compiler.config.cache_key_tag
    x = torch.randn(4, 8, requires_grad=True)
    torch.compile(normed, backend=backend())(x).sum().backward()
    assert (config.cpu_backend, config.compile_threads, common.device_codegens["cpu"]) == before
    assert torch.compiler.config.cache_key_tag == tag
    assert "triton" not in sys.modules or "pypto" not in str(sys.modules["triton"].__doc__)


def test_graphs_for_another_target_are_not_taken_from_the_cache(monkeypatch):
    from pypto.torch.inductor import backend as module

    def version(target):
        session = SimpleNamespace(backend=lambda _: SimpleNamespace(key_parts=lambda: (("target", target),)))
        monkeypatch.setattr(module, "session", lambda: session)
        return module.version.__wrapped__()

    assert version("x86-64-v3") == version("x86-64-v3") != version("x86-64-v4")


@pytest.mark.slow
def test_kernels_behind_a_graph_break():
    import pypto.torch

    def broken(x):
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y.cos() * 2

    fast = torch.compile(broken, backend=backend())
    x = torch.randn(30)
    torch.testing.assert_close(fast(x), broken(x))
    assert [k.name for k in pypto.torch.kernels(fast)] == ["triton_poi_fused_add_sin_0", "triton_poi_fused_cos_mul_0"]
    with pytest.raises(TypeError, match=r"is not what torch\.compile gave"):
        pypto.torch.kernels(broken)


def test_options():
    options = {"combo-kernels": False}
    x = torch.randn(9)
    torch.testing.assert_close(torch.compile(torch.sin, backend=backend(), options=options)(x), x.sin())
    graph = torch.fx.symbolic_trace(lambda x: (x + 1,))
    with pytest.raises(WrongSetting, match="cpu_backend='cpp': kernels are written in Triton"):
        backend()(graph, [x], options={"cpu_backend": "cpp"})
    with pytest.raises(WrongSetting, match=r"max_autotune_pointwise=True: blocks .* and none is measured"):
        backend()(graph, [x], options={"max_autotune_pointwise": True})
    with pytest.raises(WrongSetting, match="reduce-overhead"):
        backend()(graph, [x], mode="reduce-overhead")
    with pytest.raises(WrongSetting, match="CPP is not compiled by pypto"):
        backend()(graph, [x], options={"max_autotune_gemm_backends": "ATEN,CPP"})


def test_contract():
    from pypto.torch.inductor import contract

    contract.check((*contract.NEEDS, *contract.TEMPLATES, *contract.AHEAD, *contract.CPP))
    need = contract.Need("torch._inductor.compile_fx", "compile_fx", "compiles a graph", ("no_such",))
    with pytest.raises(ChangedInside, match=r"compile_fx has no parameter no_such, and compiles a graph"):
        contract.check((need,))
    with pytest.raises(ChangedInside, match=r"torch\._inductor has no lost, which is needed"):
        contract.check((contract.Need("torch._inductor", "lost", "is needed"),))


def test_triton_of_generated_text_is_ours_alone():
    from pypto.torch.inductor import load

    served = load.modules()
    names = load.run(
        "import triton.language as tl\nfrom torch._inductor.runtime import triton_helpers as h", "x", served
    )
    assert isinstance(names["tl"], ModuleType)
    assert names["tl"] is served["triton.language"]
    assert names["h"].max2.__class__.__module__ == "pypto.compat.triton.kernels"
    assert sys.modules.get("triton") is not served["triton"]


FUNCTIONS = {
    "scan": (lambda x: x.cumsum(-1), ((2, 50_000),)),  # so long that Inductor would split it on a GPU
    "sort": (lambda x: x.sort(-1)[0] * 2, ((30, 100),)),
    "transpose": (lambda x, y: x.t() + y, ((70, 90), (90, 70))),
    "sum over rows": (lambda x: (x * 2).sum(0), ((300, 200),)),
    "sum over two dimensions": (lambda x: (x - x.mean((0, 2), keepdim=True)).square().sum((0, 2)), ((5, 7, 300),)),
    "several outputs": (lambda x: (x.amax((0, 1)), x.argmin(0), x.relu()), ((33, 44),)),
    "empty": (lambda x: x * 2 + 1, ((0, 5),)),
    "condition": (lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos() * 2, (x,)), ((40,),)),
    "foreach": (lambda x, y: torch._foreach_add([x, y], [y, x]), ((30,), (30,))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_of_kernels(name):
    function, shapes = FUNCTIONS[name]
    inputs = [torch.randn(shape) for shape in shapes]
    fast = torch.compile(function, backend=backend(), fullgraph=True)
    torch.testing.assert_close(fast(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_several_kernels_in_one_launch():
    import pypto.torch

    def three(x, y):
        return x.softmax(-1), y.relu(), x * 2

    fast = torch.compile(three, backend=backend(), options={"combo_kernels": True})
    inputs = torch.randn(30, 50), torch.randn(500)
    torch.testing.assert_close(fast(*inputs), three(*inputs))
    assert len(pypto.torch.kernels(fast)) < 3


USER = """
import torch
from pypto.compat.triton import install
install()
from pypto.torch.inductor.backend import pypto_inductor
import triton
import triton.language as tl

@triton.jit
def scaled(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)

def function(x):
    y = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 64),)](x + 1, y, x.numel(), FACTOR=3.0, BLOCK=64)
    return y.relu()

fast = torch.compile(function, backend=pypto_inductor, fullgraph=True)
x = torch.randn(300)
torch.testing.assert_close(fast(x), function(x))
print("right")
"""


@pytest.mark.slow
def test_a_kernel_of_the_user(tmp_path):
    """A process of its own: torch asks once whether there is a Triton, and ours stands for it."""
    (tmp_path / "script.py").write_text(USER)
    env = {**os.environ, "PYTHONPATH": beside()}
    command = [sys.executable, "-W", "ignore", tmp_path / "script.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_the_step_of_an_optimizer(kind):
    pairs = [(x, x.clone()) for x in (torch.randn(30, 40), torch.randn(7))]
    mine, theirs = (getattr(torch.optim, kind)(list(xs), lr=1e-2) for xs in zip(*pairs, strict=True))
    step = torch.compile(mine.step, backend=backend())
    for _ in range(3):
        for x, y in pairs:
            x.grad = torch.randn(x.shape)
            y.grad = x.grad.clone()
        step()
        theirs.step()
    for x, y in pairs:
        torch.testing.assert_close(x, y)


SCRIPT = """
import sys
import torch
def network(x, w):
    return (x @ w).softmax(-1) + x.mean()

torch.manual_seed(0)
x, w = torch.randn(6, 40), torch.randn(40, 40, requires_grad=True)
fast = torch.compile(network, backend="pypto-inductor", fullgraph=True)
y = fast(x, w)
torch.testing.assert_close(y, network(x, w))
y.square().sum().backward()
counted = torch._dynamo.utils.counters
print(counted["inductor"]["fxgraph_cache_hit"], counted["aot_autograd"]["autograd_cache_hit"])
assert "pypto" not in str(getattr(sys.modules.get("triton"), "__doc__", ""))
"""


@pytest.mark.slow
def test_by_name_without_a_compiler_and_from_the_cache(tmp_path):
    """A process of its own, in which there is no C++ compiler; a second one finds all graphs in torch's cache."""
    installed = tmp_path / "site" / "pypto_entry-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pypto-entry\nVersion: 1\n")
    lines = (f"{name} = {value}" for name, value in GROUP["torch_dynamo_backends"].items())
    (installed / "entry_points.txt").write_text("\n".join(("[torch_dynamo_backends]", *lines)))
    env = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    env |= {"PATH": str(tmp_path), "PYTHONPATH": beside(installed.parent)}
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT], env=env, capture_output=True, text=True, check=False
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in outputs] == [0, 0], outputs[0].stderr + outputs[1].stderr
    assert outputs[0].stdout.split()[0] == "0"
    assert outputs[1].stdout.split() == ["0", "1"] or int(outputs[1].stdout.split()[0]) > 0
    assert Path(env["TORCHINDUCTOR_CACHE_DIR"]).is_dir()


def test_no_search_for_a_tiling_where_there_is_none(monkeypatch):
    """What is not looked for would not be found; what may be there is looked for as before."""
    import sympy
    from torch._inductor.codegen.block_analysis import BlockPatternMatcher as Matcher
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    from pypto.torch.inductor import tilings

    x = sympy.Symbol("x", integer=True, nonnegative=True)
    low, high = ModularIndexing(x, 1, 8), FloorDiv(x, 8)
    moved = low + 2 * ModularIndexing(x + 3, 1, 4)
    for index in (x, 8 * x, x + high, low * high, FloorDiv(x + 1, 8), 3 * low + 7, moved):
        assert not tilings.may_split(index, x)
        assert Matcher.match_mod_div_block_expr(index, x, sympy.Integer(64), 2) is None
    before, asked = Matcher.match_mod_div_block_expr, []
    monkeypatch.setattr(Matcher, "match_mod_div_block_expr", lambda *given: asked.append(given[0]))
    with tilings.quick():
        for index in (x, 100 * low + high, 64 * x + low):
            Matcher.match_mod_div_block_expr(index, x, sympy.Integer(64), 2)
    assert asked == [100 * low + high]
    monkeypatch.undo()
    assert Matcher.match_mod_div_block_expr == before


def test_workers_compile_what_the_first_launches_need(tmp_path, monkeypatch):
    """Launches wait here until the workers are done; then they find all code in the disk cache."""
    import pypto.torch
    from pypto.compile import session
    from pypto.torch.inductor import ahead

    made, close = [], ahead.Workers.close
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead.Workers, "close", lambda self: (made.append(self), close(self), self.wait()))
    session.cache_clear()
    monkeypatch.setattr(type(session()), "most_threads", 3)
    try:
        fast = torch.compile(several, backend=backend(), options={"compile_threads": 3})
        x = torch.randn(30, 40)
        torch.testing.assert_close(fast(x), several(x))
        kernels = pypto.torch.kernels(fast)
        assert [len(workers.processes) for workers in made] == [2]
        assert len(made[0].sent) == len(kernels) >= 3
        assert not any("codegen" in s.timings for kernel in kernels for s in kernel.kernel.specializations)
    finally:
        session.cache_clear()


def several(x):
    """Kernels of several kinds; two write to parts of one buffer."""
    y = torch.cat((x.sin(), x.softmax(-1)), -1)
    return torch.nn.functional.layer_norm(y @ y.t(), (30,)).cumsum(0) + x.sum(0, keepdim=True)[:, :30]


def test_no_workers_where_one_process_is_to_compile():
    from pypto.torch.inductor import ahead

    with ahead.workers(1):
        assert ahead.WORKERS.get() is None


def test_numbers_that_a_call_computes_are_known_ahead():
    """The rows of a view of two dynamic dimensions are a product, which the wrapper computes before the launch."""

    def rows(x):
        return torch.nn.functional.gelu(x.reshape(-1, 33) * 2).sum(1)

    fast = torch.compile(rows, backend=backend(), dynamic=True, options={"compile_threads": 2})
    for shape in ((3, 7, 33), (5, 9, 33)):
        x = torch.randn(shape)
        torch.testing.assert_close(fast(x), rows(x))

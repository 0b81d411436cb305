"""Operators in programs of other processes: exported, compiled ahead of time, cached, distributed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.conformance.processes import ROOT
from tests.patience import limit

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402, F401
from tests.torch.operators_model import model, sample  # noqa: E402

pytestmark = pytest.mark.slow
OURS = ["model_ops.gelu_custom.default", "pypto.rms_norm.default", "pypto.swiglu.default"]


def run(program: str, *args: object, **environment: str) -> str:
    """Runs a program in a process of its own, and returns what it prints."""
    command = [sys.executable, "-W", "ignore", "-c", dedent(program), *map(str, args)]
    found = subprocess.run(  # noqa: PLW1510
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=limit(40)
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


def test_exported_and_loaded(tmp_path: Path) -> None:
    """Another process runs the program, trains it, and needs no module of the library but `pypto.torch`."""
    program = torch.export.export(model(), (sample(),), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    assert (
        sorted(str(n.target) for n in program.graph.nodes if str(n.target).split(".")[0] in ("pypto", "model_ops"))
        == OURS
    )
    torch.export.save(program, tmp_path / "model.pt2")
    torch.save((sample(9), model()(sample(9))), tmp_path / "expected.pt")
    text = """
        import sys, torch, tests.torch.operators_model
        module = torch.export.load(sys.argv[1] + "/model.pt2").module()
        x, expected = torch.load(sys.argv[1] + "/expected.pt")
        found = module(x)
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        print(all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters()))
    """
    assert run(text, tmp_path).split() == ["True"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not shutil.which("g++"), reason="a shared library needs a C compiler")
def test_compiled_ahead_of_time(tmp_path: Path) -> None:
    with torch.no_grad():
        program = torch.export.export(model().eval(), (sample(),))
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
        torch.save(model()(sample()), tmp_path / "expected.pt")
    text = """
        import sys, torch, tests.torch.operators_model as m
        found = torch._inductor.aoti_load_package(sys.argv[1])(m.sample())
        torch.testing.assert_close(found, torch.load(sys.argv[2]))
        print("equal")
    """
    assert run(text, package, tmp_path / "expected.pt").split() == ["equal"]


def test_caches_of_torch_know_what_a_row_computes(tmp_path: Path) -> None:
    """Inductor's keys contain the name of an operator alone: the second process took the code of the first."""
    text = """
        import sys, torch, pypto.torch
        from dataclasses import replace
        from pypto import library as lib
        ones = lib.Implementation("ones", lambda x, y: y.fill_(1))
        row = replace(lib.rows["silu"], name="of_a_test", text=sys.argv[1], implementations=(ones,), gradient=None)
        lib.register(row)
        print(*torch.compile(lambda x: lib.rows["of_a_test"](x) + 1, fullgraph=True)(torch.ones(3, 4)).shape)
    """
    texts = ("x[t, d] f32 -> y[t, d]", "x[t, d] f32 -> y[t, 2*d]")
    shapes = [run(text, signature, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache")).split() for signature in texts]
    assert shapes == [["3", "4"], ["3", "8"]]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run_two(body: str) -> list[str]:
    """Runs a program in two processes of one group, and returns what each prints."""
    head = """
        import os, torch, torch.distributed as dist, pypto.torch
        from pypto import library as lib
        import tests.torch.operators_model as m
        dist.init_process_group("gloo")
        rank = dist.get_rank()
    """
    text = dedent(head) + dedent(body) + "\ndist.destroy_process_group()\n"
    port = str(free_port())
    command = [sys.executable, "-W", "ignore", "-c", text]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **group, "RANK": str(n)}, stdout=subprocess.PIPE, text=True
        )
        for n in range(2)
    ]
    outputs = [process.communicate(timeout=limit(40))[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return outputs


@pytest.mark.parametrize("compiled", [False, True])
def test_two_processes_train_as_one(compiled: bool) -> None:
    """DistributedDataParallel averages the gradients of two halves of a batch."""
    body = f"""
        model, x = m.model(), m.sample(8)
        (model(x) ** 2).mean().backward()
        expected = [p.grad.clone() for p in model.parameters()]
        copy = m.model()
        parallel = torch.nn.parallel.DistributedDataParallel(copy)
        step = torch.compile(parallel, backend="aot_eager") if {compiled} else parallel
        (step(x[4 * rank : 4 * rank + 4]) ** 2).mean().backward()
        for p, e in zip(copy.parameters(), expected):
            torch.testing.assert_close(p.grad, e, rtol=1e-4, atol=1e-6)
        print("equal")
    """
    assert [output.split() for output in run_two(body)] == [["equal"], ["equal"]]


def test_sharded_tensors() -> None:
    """Rows are sharded along their items, elementwise ones along any axis; others are computed from whole copies."""
    body = """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        mesh = init_device_mesh("cpu", (2,))
        torch.manual_seed(0)
        x, g = torch.randn(6, 8), torch.randn(8)
        for axis in (0, 1):
            X = distribute_tensor(x, mesh, [Shard(axis)]).requires_grad_()
            G = distribute_tensor(g, mesh, [Replicate()]).requires_grad_()
            y = lib.rms_norm(X, G)
            torch.testing.assert_close(y.full_tensor(), lib.rms_norm(x, g))
            s = lib.silu(X)
            torch.testing.assert_close(s.full_tensor(), lib.silu(x))
            (y ** 2).sum().backward()
            a, b = x.clone().requires_grad_(), g.clone().requires_grad_()
            (lib.rms_norm(a, b) ** 2).sum().backward()
            torch.testing.assert_close(X.grad.full_tensor(), a.grad)
            torch.testing.assert_close(G.grad.full_tensor(), b.grad)
            print(y.placements[0].is_shard(0), s.placements[0].is_shard(axis))
        try:
            lib.scatter_update(distribute_tensor(x, mesh, [Shard(0)]), torch.tensor([1]), x[:1])
        except RuntimeError as error:
            print("refused" if "it writes to `cache`" in str(error) else error)
    """
    for output in run_two(body):
        assert output.split() == ["True", "True", "False", "True", "refused"]

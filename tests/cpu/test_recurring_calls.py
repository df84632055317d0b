"""Programs that make the same calls again and again: see `recurring_calls`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING


@pytest.mark.parametrize("workers", [1, 3])
def test_each_array_holds_what_it_should(workers: int) -> None:
    """Every launch of several work-groups is split."""
    always = {"VDEV_MIN_ITEMS": "0", "VDEV_PLANNING": "always", "VDEV_GATHER": "0"}
    environment = (
        os.environ | always | {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}", "PYOPENCL_NO_CACHE": "1"}
    )
    command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.recurring_calls", "1", "25"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are right" in done.stdout
    assert "internal error" not in done.stderr


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize(("workers", "late"), [("cuda:0", 0), ("cuda:0,1", 1)])
def test_on_gpus(workers: str, late: int, tmp_path: Path) -> None:
    """On the driver for machines without one, where the GPU of that number does nothing until somebody waits for it."""
    script = (
        "import sys; sys.argv = ['', '1', '8']; from tests.cpu.recurring_calls import main; sys.exit(main())"
    )
    assert "are right" in fake_cuda.run(script, fake_cuda.environment(tmp_path, workers, late))


#: launches are split over three GPUs; the script takes the first seed and the number of programs
ON_THREE = {"VDEV_MIN_ITEMS": "0", "VDEV_PLANNING": "always", "VDEV_GATHER": "0", "FAKE_CUDA_DEVICES": "3"}
SCRIPT = (
    "import sys; sys.argv = ['', '{}', '{}']; from tests.cpu.recurring_calls import main; sys.exit(main())"
)
PLANTED = {
    "no wait for a fence": """
CudaCompiling.order_after_fence = lambda self, peer: None
CudaCompiling.waiting = lambda self, event: self.entry()
""",
    "a fence that stays where it was": """
put, put_in_list = Worker.put_fence, PlanList._put_fence
def once(self):
    if not self.fenced:
        put(self)
    self.fenced = self.issued
def once_in_list(self, worker):
    if not worker.fenced:
        put_in_list(self, worker)
Worker.put_fence, PlanList._put_fence = once, once_in_list
""",
    "the values of the first launch": "compiled_plan.CompiledPlan._changed = lambda self, args: []",
    "no wait for who reads what is changed": """
needs = compiled_plan._Part.needs
def hasty(self, workers):
    self.changed = []
    return needs(self, workers)
compiled_plan._Part.needs = hasty
""",
    "other buffers' memory": """
class Any(list):
    def __eq__(self, other): return len(self) == len(other)
made = compiled_plan.CompiledPlan.__init__
def forgetful(self, *given):
    made(self, *given)
    self.replicas = Any(self.replicas)
compiled_plan.CompiledPlan.__init__ = forgetful
""",
}


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("orders", [{"late": 1}, {"seed": 5}])
def test_plans_compiled_for_gpus(orders: dict[str, int], tmp_path: Path) -> None:
    environment = fake_cuda.environment(tmp_path, "cuda:0-2", **orders) | ON_THREE
    assert "are right" in fake_cuda.run(SCRIPT.format(1, 6), environment)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("planted", PLANTED)
def test_a_defect_of_compiled_plans_is_found(planted: str, tmp_path: Path) -> None:
    script = f"""
from vdev.backends.cuda.compiling import CudaCompiling
from vdev.executor import compiled_plan
from vdev.executor.plan_list import PlanList
from vdev.executor.worker import Worker
{PLANTED[planted]}
{SCRIPT.format(1, 12)}
"""
    with pytest.raises(AssertionError, match=r"seed \d"):
        fake_cuda.run(script, fake_cuda.environment(tmp_path, "cuda:0-2", late=1) | ON_THREE)


PLANTED_IN_ROTATION = {
    "other buffers": "Rotation.key = lambda self, kernel, args: ()",
    "values of the launch before": "Streak.changed = lambda self, args: ()",
    "the index space of the launch before": """
over = WholeLaunchStep.over
def stale(self, worker, ndrange, places):
    shape = over(self, worker, ndrange, places)
    return self._last[2] if shape else None
WholeLaunchStep.over = stale
""",
    "the size without what the kernel is told of it": """
set_shape = OpenCLLaunches._set_shape
OpenCLLaunches._set_shape = lambda self, kernel, args, shape: kernel.hidden or set_shape(self, kernel, args, shape)
""",
    "arguments of another launch": """
def unowned(self, kernel, args, shape):
    found = again(self, kernel, args, shape)
    def launch(changed=(), shape=None):
        kernel.owner = next(cell.cell_contents for name, cell in zip(found.__code__.co_freevars, found.__closure__) if name == "mine")
        return found(changed, shape)
    return launch
again, OpenCLLaunches.again = OpenCLLaunches.again, unowned
""",
}


@pytest.mark.parametrize("planted", PLANTED_IN_ROTATION)
def test_a_defect_of_launches_made_again_is_found(planted: str) -> None:
    script = f"""
from vdev.backends.opencl.launching import OpenCLLaunches
from vdev.executor.line import Streak
from vdev.executor.whole import WholeLaunchStep
from vdev.facade.rotation import Rotation
{PLANTED_IN_ROTATION[planted]}
{SCRIPT.format(49, 12)}
"""
    environment = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"^seed \d", done.stdout, re.MULTILINE), done.stderr

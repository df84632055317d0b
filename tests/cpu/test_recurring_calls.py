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
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
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
CudaCompiling.order_after_fence = lambda self, peer, aside=False: None
CudaCompiling.waiting = lambda self, event, aside=False: self.entry()
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


#: plans are handed to all workers together from the second one in a row on, however soon that keeps ending
TOGETHER = """
from vdev.executor import together
together._FIRST_IN_A_ROW = together._MOST_IN_A_ROW = 1
gone, hand_over = [0], together.Together.hand_over
def counted(self, *given):
    part = hand_over(self, *given)
    gone[0] += part is not None
    return part
together.Together.hand_over = counted
"""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("orders", [{"late": 0}, {"late": 1}, {"seed": 7}])
def test_plans_handed_over_together(orders: dict[str, int], tmp_path: Path) -> None:
    environment = fake_cuda.environment(tmp_path, "cuda:0-2", **orders) | ON_THREE
    script = f"""{TOGETHER}
import sys; sys.argv = ['', '20', '8']; from tests.cpu.recurring_calls import main
status = main()
assert gone[0] > 200, gone
sys.exit(status)
"""
    assert "are right" in fake_cuda.run(script, environment)


PLANTED_TOGETHER = {
    "no wait for what plans before have changed": """
needs = orders._needs
orders._needs = lambda written, readers, accesses: needs({}, readers, accesses)
""",
    "no wait for who reads what is changed": """
needs = orders._needs
orders._needs = lambda written, readers, accesses: needs(written, {}, accesses)
""",
    "a fence that is taken to be behind all": """
advance = orders.advance
orders.advance = lambda *given: ((), *advance(*given)[1:])
""",
    "nothing comes before the first": """
Worker.order_after_fence = lambda self, other: None
""",
    "what was put for another order": """
put_in = PlanList._put_in
PlanList._put_in = lambda self, edge: put_in(self, edge) if self._made_as is None else None
""",
    "records that are not kept": """
number = HazardsOfPlan.number_steps
def forgetful(self, *given):
    changes, reads, self._changes, self._reads = self._changes, self._reads, (), ()
    try:
        return number(self, *given)
    finally:
        self._changes, self._reads = changes, reads
HazardsOfPlan.number_steps = forgetful
""",
    "bytes of the write before": """
CudaUpload.set_values = lambda self, changed: None
""",
    "a launch that is recalled in other states": """
RecalledLaunch._is_as_before = lambda self, args, buffers: True
""",
}


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("planted", PLANTED_TOGETHER)
def test_a_defect_of_plans_handed_over_together_is_found(planted: str, tmp_path: Path) -> None:
    script = f"""
from vdev.backends.cuda.compiling import CudaUpload
from vdev.executor import orders
from vdev.executor.hazards import HazardsOfPlan
from vdev.executor.plan_list import PlanList
from vdev.executor.worker import Worker
from vdev.session.recalls import RecalledLaunch
{TOGETHER}
{PLANTED_TOGETHER[planted]}
{SCRIPT.format(60, 24)}
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
{SCRIPT.format(50, 12)}
"""
    environment = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"^seed \d", done.stdout, re.MULTILINE), done.stderr

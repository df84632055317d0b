"""The executor: plans in, work on worker threads out. Keeps invariants 6 and 7 with the session."""

from vdev.executor.completion import Completion, call_soon
from vdev.executor.executor import Executor
from vdev.executor.failures import repaired
from vdev.executor.holdings import Damage, Holdings
from vdev.executor.launch_step import LaunchRecipe
from vdev.executor.prepare import PreparedPlan
from vdev.executor.stretch import is_done_at_once

__all__ = [
    "Completion",
    "Damage",
    "Executor",
    "Holdings",
    "LaunchRecipe",
    "PreparedPlan",
    "call_soon",
    "compiled_plan",
    "completion",
    "direct_reads",
    "executor",
    "holdings",
    "is_done_at_once",
    "job",
    "launch_step",
    "line",
    "prepare",
    "records",
    "red_zones",
    "repaired",
    "repeated_launch",
    "sampling",
    "steps",
    "stretch",
    "worker",
]

"""The executor: plans in, work on worker threads out."""

from vdev.executor.completion import Completion, call_soon
from vdev.executor.executor import Executor
from vdev.executor.failures import repaired
from vdev.executor.holdings import Damage, Holdings
from vdev.executor.prepare import PreparedPlan
from vdev.executor.steps import LaunchRecipe
from vdev.executor.stretch import is_done_at_once

__all__ = [
    "Completion",
    "Damage",
    "Executor",
    "Holdings",
    "LaunchRecipe",
    "PreparedPlan",
    "at_once",
    "call_soon",
    "completion",
    "executor",
    "holdings",
    "is_done_at_once",
    "job",
    "prepare",
    "records",
    "red_zones",
    "repaired",
    "run",
    "sampling",
    "steps",
    "stretch",
    "worker",
]

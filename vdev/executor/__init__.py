"""The executor: plans in, work on worker threads out. Keeps invariants 6 and 7 with the session."""

__all__ = [
    "anywhere",
    "boxes",
    "compiled_plan",
    "completion",
    "direct_reads",
    "executor",
    "failures",
    "holdings",
    "job",
    "launch_step",
    "line",
    "plan_form",
    "prepare",
    "records",
    "red_zones",
    "repeated_launch",
    "sampling",
    "steps",
    "stretch",
    "worker",
]

"""The planner: a command and the buffers' states in, a plan and the states after it out. Pure.

No input or output, threads, devices.
"""

__all__ = [
    "balance",
    "builder",
    "directory",
    "evictions",
    "footprints",
    "habits",
    "in_place",
    "instructions",
    "launches",
    "links",
    "merges",
    "parameters",
    "partitioner",
    "pending",
    "regret",
    "spans",
    "successors",
    "timing",
    "transfers",
    "turns",
    "whole",
]

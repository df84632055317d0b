"""The planner: a command and the buffers' states in, a plan and the states after it out.

Pure: no input or output, threads or devices. Keeps invariants 1, 3, 4 and 10.
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
    "interiors",
    "investment",
    "launch_request",
    "launch_search",
    "launches",
    "links",
    "merges",
    "outlook",
    "parameters",
    "partitioner",
    "pending",
    "periods",
    "placement",
    "regret",
    "spans",
    "successors",
    "timing",
    "transfers",
    "turns",
    "views",
    "whole",
]

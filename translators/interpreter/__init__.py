"""The abstract interpreter: a kernel's syntax tree in, its access summary out.

Decides which bytes of which argument a chunk may touch, and whether that is exact.
Keeps invariants 2 and 8: what has no rule is unknown. Imports `frontend`, `symbolic` and `ranges`.
"""

__all__ = ["access", "launch_ranges", "plain", "summaries", "work"]

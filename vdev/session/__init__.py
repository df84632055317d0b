"""The session: commands of a program in, plans on workers out.

Decides the order of commands, who holds the lock, which plans are kept, and whether buffers stay on one worker. Keeps
invariants 3, 6 and 7 together with the planner and the executor, which it joins. Knows neither PyOpenCL nor how
switches are read, except that of the cache folder (`calibration`).
"""

__all__ = [
    "buffers",
    "calibration",
    "capabilities",
    "commands",
    "core",
    "immediate_forms",
    "immediate_moves",
    "in_a_row",
    "lost",
    "measuring",
    "ordering",
    "program_cache",
    "programs",
    "requests",
    "session",
    "shadow_runs",
    "spare_buffers",
    "specialization",
]

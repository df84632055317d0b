"""What vdev is in the program's process: switches, log, private files, and what happens at signals, forks and the end.

Decides when an exception may come, what a child of fork has, and how a process ends. Imports nothing of the project.
"""

__all__ = [
    "beside",
    "ending",
    "finalisers",
    "folders",
    "forking",
    "inside",
    "interrupts",
    "late_libraries",
    "log",
    "private_files",
    "processor_time",
    "switches",
    "threads",
]

"""What the virtual device did: figures (`statistics`), a report with advice (`explain`), a trace (`trace`).

Never changes what is planned or how it is carried out.
"""

__all__ = [
    "explain",
    "recorder",
    "snapshots",
    "statistics",
    "tallies",
    "trace",
    "watch",
]

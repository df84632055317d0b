"""Coverage of kernels: which of their lines and branches ran, added up over launches, tests and processes.

Decides what is counted as covered and how it is told: text, lcov, Cobertura XML, HTML. `counting` runs launches on programs
that count (`vdev.translators.dialects.counted`), `data` keeps and merges what they leave, `figures` makes numbers of it, `places` knows
where a text stands.
Importing this package itself loads nothing.
"""

__all__ = ["counting", "data", "figures", "places", "reports", "session", "watching"]

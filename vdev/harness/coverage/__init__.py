"""Coverage of kernels: which of their lines and branches ran, added up over launches, tests and processes.

Decides what counts as covered and how it is reported: text, lcov, Cobertura XML, HTML. `counting` runs launches on
programs that count (`vdev.translators.dialects.counted`), `data` keeps and merges what they leave, `figures` turns it
into numbers, and `places` finds the file that a source text is in. Importing this package itself loads nothing.
"""

__all__ = ["counting", "data", "figures", "places", "reports", "session", "whole_program"]

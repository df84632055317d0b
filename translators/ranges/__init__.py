"""Sets of bytes, index spaces and grains: the vocabulary of all layers.

Decides how a set of bytes is represented, joined, cut and compared, and what a part of an NDRange is. Imports nothing
of the project. Invariants 1 and 2 are stated in its terms: chunks are boxes of work-groups, and a region contains at
least what was asked for.
"""

__all__ = [
    "bands",
    "byte_runs",
    "calculations",
    "compiled",
    "conflicts",
    "covers",
    "grain",
    "labelled",
    "labelled_bands",
    "meetings",
    "ndrange",
    "patterns",
    "pitches",
    "rebuilding",
    "rectangles",
    "region",
    "slicing",
    "stairs",
    "tracing",
    "unlisted",
]

"""Integers of a kernel as symbols: expressions, truth values, iteration domains, and the bytes that a domain maps to.

Decides what two expressions add up to and between which bounds a value lies once a launch has put its numbers in.
Imports only `ranges`. Keeps invariant 2: a bound is never too narrow.
"""

__all__ = [
    "domain",
    "domain_image",
    "effort",
    "evaluation",
    "exhaustive",
    "expression",
    "launch_numbers",
    "logic",
    "nodes",
    "report",
    "substitution",
    "tables",
]

"""OpenCL C to CUDA C++: tables of words and types, and a printer of a program's syntax tree."""

__all__ = ["program", "translation"]

"""OpenCL C to CUDA C++: tables of words and types, and the rewriting of a program's text by its syntax tree."""

__all__ = ["program", "translation"]

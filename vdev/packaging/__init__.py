"""What building the distribution needs beside setuptools: see `backend`. Nothing at run time imports it."""

__all__ = ["backend", "library"]

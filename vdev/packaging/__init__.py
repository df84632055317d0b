"""What building the distribution needs besides setuptools: see `backend`. Only `library` is imported at run time."""

__all__ = ["backend", "library"]

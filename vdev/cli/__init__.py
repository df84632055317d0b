"""Commands for people: `vdev-info` and what it prints and draws."""

__all__ = ["info"]

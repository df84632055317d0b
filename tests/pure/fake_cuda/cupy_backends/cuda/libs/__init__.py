"""NVRTC."""

"""Workers on NVIDIA GPUs: CuPy and NVRTC behind the back-end seam."""

__all__ = ["backend", "driver"]

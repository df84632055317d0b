"""OpenCL C in; OpenCL C for a sub-grid and access summaries out. Knows nothing of vdev or of any device."""

__all__ = ["collecting", "cuda", "native_code", "source", "values"]

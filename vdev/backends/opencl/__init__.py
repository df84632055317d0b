"""Workers on native OpenCL devices, through PyOpenCL's real native module."""

__all__ = ["backend", "devices", "native"]

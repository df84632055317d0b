"""The façade: a stand-in for PyOpenCL's native module `pyopencl._cl`, with one platform holding one device.

It alone knows PyOpenCL. It checks every call as the OpenCL specification and the native module do, keeps the
objects that a program sees, and hands commands to `vdev.session.session`. It never decides where something is
computed or kept. Nothing is imported here: the stand-in is filled when PyOpenCL first looks for its native
module (`vdev.facade.stand_in`).
"""

__all__ = [
    "arguments",
    "calls",
    "context",
    "errors",
    "event",
    "handles",
    "hostbuf",
    "image_formats",
    "image_transfers",
    "images",
    "kernel",
    "launch",
    "maps",
    "memory",
    "platform_device",
    "program",
    "queue",
    "stand_in",
    "svm",
    "svm_memory",
    "sync",
    "transfers",
]

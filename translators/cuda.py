"""OpenCL C to CUDA C++, under the name by which scripts import it; the modules are in `dialects.cuda`."""

from .dialects.cuda.translation import CudaProgram, translate_cuda

__all__ = ["CudaProgram", "translate_cuda"]

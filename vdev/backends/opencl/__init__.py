"""Workers on native OpenCL devices, through PyOpenCL's real native module."""

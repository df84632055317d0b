"""PyOpenCL's own tests and examples, run natively and on the virtual device. See `__main__` for the
command."""

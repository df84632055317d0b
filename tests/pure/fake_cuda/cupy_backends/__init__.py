"""CuPy's bindings of CUDA as vdev uses them, on the driver in `driver.cc`: GPUs whose memory is the host's."""

"""CuPy as a whole, which nothing needs: its bindings are in `cupy_backends`."""

raise ImportError("CuPy is not loaded as a whole where its bindings suffice")

"""A program that makes random calls of OpenCL, and the comparison of what comes of them."""

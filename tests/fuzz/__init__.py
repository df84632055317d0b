"""Random OpenCL programs: what they compute natively and on several workers must be the same bytes.

`python -m tests.fuzz --help`; the README beside this file says what there is and how to add to it.
"""

"""The planner: a command and the buffers' states in, a plan and the states after it out. Pure.

No input or output, threads, devices.
"""

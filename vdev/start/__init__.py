"""What is found and made before there is a device: engines on this machine, workers from the switches, the session.

Imports everything below the façade. The start-up hook itself is `vdev.boot`, which must import nothing else.
"""

__all__ = ["current", "engines", "workers"]

"""What tests of a session do with its buffers: write one, read one."""

from __future__ import annotations

import numpy as np
from vdev.translators.ranges.rectangles import Layout

from vdev.session.commands import Read, Write
from vdev.session.session import Session, VirtualBuffer


class SessionUser:
    """One queue of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.queue = session.create_queue(in_order=True)

    def written(self, data: np.ndarray) -> VirtualBuffer:
        """A new buffer with that content."""
        buffer = self.session.create_buffer(data.nbytes)
        write = Write(buffer, Layout.contiguous(0, data.nbytes), data.view(np.uint8))
        assert self.session.submit(write, queue=self.queue).wait() == 0
        return buffer

    def content(self, buffer: VirtualBuffer) -> np.ndarray:
        """A buffer's words."""
        host = np.zeros(buffer.nbytes // 4, np.uint32)
        read = Read(buffer, Layout.contiguous(0, buffer.nbytes), host.view(np.uint8))
        assert self.session.submit(read, queue=self.queue).wait() == 0
        return host

"""Back ends: what one worker can do with its own memory. They know nothing of virtual buffers, events or plans."""

__all__ = ["base", "call_lists", "compiled", "compiling", "merging", "own_libraries", "reference"]

"""Memory that the front process and an engine process share: for every sentence, a stop flag and whether it runs.

The front process sets a flag when nobody waits for the sentence any more; the search reads it once per step.  The
engine process marks the sentences that its threads work on, so that after its death the front process knows which
ones they were.  The memory has no name in the file system, so nothing is left behind whoever is killed.
"""

import ctypes
import mmap
import os
import tempfile

COUNT = 1 << 16  # sentences that an engine process knows at a time


class Slots:
    """The shared memory: `COUNT` stop flags, then `COUNT` marks."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Create the memory, or map that of another process by its file descriptor."""
        self.descriptor = _create() if descriptor is None else descriptor
        self._memory = mmap.mmap(self.descriptor, 2 * COUNT)
        self._released: list[int] = []
        self._used = 0  # slots that were ever taken
        self.is_closed = False

    @property
    def free(self) -> int:
        """The number of slots that are not in use."""
        return COUNT - self._used + len(self._released)

    def take(self) -> int:
        """Return a slot that is not in use, with its flag and its mark cleared."""
        if self._released:
            slot = self._released.pop()
        elif self._used < COUNT:
            slot, self._used = self._used, self._used + 1
        else:
            raise IndexError("all slots are in use")
        self._memory[slot] = self._memory[COUNT + slot] = 0
        return slot

    def release(self, slot: int) -> None:
        self._released.append(slot)

    def stop(self, slot: int) -> None:
        """Ask the engine to give up a sentence."""
        self._memory[slot] = 1

    def is_stopped(self, slot: int) -> bool:
        return self._memory[slot] != 0

    def mark(self, slot: int, running: bool) -> None:
        """Note whether a thread works on a sentence."""
        self._memory[COUNT + slot] = running

    def is_running(self, slot: int) -> bool:
        return self._memory[COUNT + slot] != 0

    def address(self, slot: int) -> int:
        """Return the address of a stop flag in this process."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + slot

    def close(self) -> None:
        """Close the file descriptor; the mapping ends with the process or the object."""
        if not self.is_closed:
            os.close(self.descriptor)
        self.is_closed = True


def _create() -> int:
    """Return the descriptor of new shared memory."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("jumok-slots")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, 2 * COUNT)
    return descriptor

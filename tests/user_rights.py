"""What a user who is not root may do, for tests that root runs too."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

VERSION = 0x20080522  # of capget and capset, with two words for each set of capabilities
PASSES_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@contextlib.contextmanager
def bound_by_modes() -> Iterator[None]:
    """Has the mode bits of files bind this thread, and those that it starts, as they bind any user.

    Root passes them by two capabilities of Linux, which are given up meanwhile. A process that root starts has them
    again. Elsewhere root is not bound.

    Raises:
        OSError: where the kernel does not let capabilities be given up.
    """
    if sys.platform != "linux" or os.geteuid():
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION, 0)
    words = (
        ctypes.c_uint32 * 6
    )()  # effective, permitted, inheritable; the three once more for capabilities above 31

    def call(name: str) -> None:
        if getattr(libc, name)(header, words):
            raise OSError(ctypes.get_errno(), f"{name} was refused to {os.geteuid()}")

    call("capget")
    before = words[0]
    words[0] = before & ~PASSES_MODES
    call("capset")
    try:
        yield
    finally:
        words[0] = before
        call("capset")

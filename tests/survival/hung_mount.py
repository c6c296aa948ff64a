"""A FUSE file system that is mounted and then never answers: `hung_mount.py MOUNTPOINT`, until it is killed.

A real mount in a real kernel. A request that it has not read can still be left by SIGKILL, as with NFS mounted hard; one
that it has read, with `deaf` as the second word, cannot: who asks stands in state D until this process ends.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time

INIT = 26  # linux/fuse.h: FUSE_INIT, struct fuse_in_header, struct fuse_out_header, struct fuse_init_out
REPLY = struct.pack("<IIIIHHIIHH7I", 7, 31, 65536, 0, 12, 12, 65536, 1, 0, 0, *[0] * 7) + bytes(4)


def main(point: str, deaf: bool) -> None:
    """Mount, answer the kernel's first question, then none."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"prelaunch-hung", point.encode(), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), point)
    _, opcode, unique = struct.unpack_from("<IIQ", os.read(device, 1 << 17))
    assert opcode == INIT
    os.write(device, struct.pack("<IiQ", 16 + len(REPLY), 0, unique) + REPLY)
    print("ready", flush=True)
    while True:
        if deaf:
            os.read(device, 1 << 17)
        else:
            time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["deaf"])

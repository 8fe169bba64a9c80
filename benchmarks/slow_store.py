"""A store with a latency: a folder as a mount of FUSE shows it, in which each open and each read takes its time (root).

As with an object store or a file system across a network, any number of requests may be under way, so a program that
asks for one thing after another waits, and the bytes of all go through one pipe. It is read-only, and Linux keeps what
was read as it does of any file, until something looks for ``.cold`` in it.
"""

from __future__ import annotations

import ctypes
import errno
import heapq
import os
import select
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

COLD = ".cold"
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _STATFS, _RELEASE = 1, 2, 3, 14, 15, 17, 18
_INIT, _OPENDIR, _READDIR, _RELEASEDIR, _INTERRUPT, _DESTROY, _FORGET_SEVERAL = 26, 27, 28, 29, 36, 38, 42
_INVALIDATE, _KEEP_CACHE, _ASYNC_READ, _MOST_AT_ONCE = 2, 2, 1, 256
_VALID = 3600
_HEADER = struct.Struct("<IIQQIIIHH")


@dataclass
class _Server:
    """What the kernel asks, by the protocol of ``linux/fuse.h`` 7.31, and answers that wait for their time."""

    device: int
    source: Path
    latency: float
    rate: float
    keep: bool = True
    paths: dict[int, Path] = field(default_factory=dict)
    waiting: list[tuple[float, int, bytes]] = field(default_factory=list)
    free: float = 0.0

    def serve(self) -> None:
        """Answer until the mount is gone."""
        self.paths[1] = self.source
        while True:
            pause = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            if select.select([self.device], [], [], pause)[0]:
                try:
                    asked = os.read(self.device, 1 << 20)
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.EINTR):  # a request that was interrupted
                        continue
                    return
                self._answer(asked)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, unique, body = heapq.heappop(self.waiting)
                self._send(unique, body)

    def _send(self, unique: int, body: bytes, error: int = 0) -> None:
        with suppress(OSError):  # the program that asked is gone
            os.writev(self.device, [struct.pack("<IiQ", 16 + len(body), error, unique), body])

    def _later(self, unique: int, body: bytes) -> None:
        now = time.monotonic()
        self.free = max(now + self.latency, self.free) + len(body) / self.rate
        heapq.heappush(self.waiting, (self.free, unique, body))

    def _answer(self, asked: bytes) -> None:
        _, kind, unique, node = _HEADER.unpack_from(asked)[:4]
        rest = asked[_HEADER.size :]
        if kind in (_FORGET, _FORGET_SEVERAL, _INTERRUPT):
            return
        try:
            if kind == _INIT:
                ahead = struct.unpack_from("<I", rest, 8)[0]
                told = (7, 31, ahead, _ASYNC_READ, _MOST_AT_ONCE, _MOST_AT_ONCE, 1 << 17, 1, 32, 0, 0)
                self._send(unique, struct.pack("<IIIIHHIIHHI28x", *told))
            elif kind == _LOOKUP:
                self._send(unique, self._look_up(node, rest[: rest.index(0)].decode()))
            elif kind == _GETATTR:
                self._send(unique, struct.pack("<QII", _VALID, 0, 0) + _attributes(self.paths[node].stat()))
            elif kind == _OPEN:
                self._later(unique, struct.pack("<QII", node, _KEEP_CACHE if self.keep else 0, 0))
            elif kind == _OPENDIR:
                self._send(unique, struct.pack("<QII", node, 0, 0))
            elif kind == _READ:
                _, offset, size = struct.unpack_from("<QQI", rest)
                with self.paths[node].open("rb") as file:
                    self._later(unique, os.pread(file.fileno(), size, offset))
            elif kind == _READDIR:
                _, offset, size = struct.unpack_from("<QQI", rest)
                self._send(unique, _entries(self.paths[node], offset, size))
            elif kind in (_RELEASE, _RELEASEDIR, _DESTROY):
                self._send(unique, b"")
            elif kind == _STATFS:
                self._send(unique, struct.pack("<QQQQQIIII24x", 1 << 20, 0, 0, 1 << 16, 0, 4096, 255, 4096, 0))
            else:
                self._send(unique, b"", -errno.ENOSYS)
        except OSError as error:
            self._send(unique, b"", -(error.errno or errno.EIO))

    def _look_up(self, node: int, name: str) -> bytes:
        if name == COLD:
            for number in self.paths:
                told = struct.pack("<Qqq", number, 0, 0)
                with suppress(OSError):  # a file that the kernel has forgotten
                    os.write(self.device, struct.pack("<IiQ", 16 + len(told), _INVALIDATE, 0) + told)
            raise FileNotFoundError(errno.ENOENT, "")
        path = self.paths[node] / name
        found = path.stat()
        self.paths[found.st_ino] = path
        return struct.pack("<QQQQII", found.st_ino, 0, _VALID, _VALID, 0, 0) + _attributes(found)


def _attributes(found: os.stat_result) -> bytes:
    times = (int(found.st_atime), int(found.st_mtime), int(found.st_ctime))
    numbers = (found.st_ino, found.st_size, found.st_blocks, *times)
    return struct.pack("<6Q10I", *numbers, 0, 0, 0, found.st_mode, found.st_nlink, 0, 0, 0, 4096, 0)


def _entries(folder: Path, offset: int, size: int) -> bytes:
    text = b""
    for place, one in enumerate(sorted(os.scandir(folder), key=lambda one: one.name)[offset:], offset + 1):
        name = one.name.encode()
        kind = stat.S_IFMT(one.stat().st_mode) >> 12
        entry = struct.pack("<QQII", one.inode(), place, len(name), kind) + name
        entry += bytes(-len(entry) % 8)
        if len(text) + len(entry) > size:
            break
        text += entry
    return text


@contextmanager
def slow_store(source: Path, latency: float, rate: float, *, keep: bool = True) -> Iterator[None]:
    """Let a folder be as slow as a store, and give it back at the end.

    Parameters
    ----------
    source : Path
    latency : float
        Seconds of each open and each read.
    rate : float
        Bytes a second, of all readers together.
    keep : bool
        Whether what was read stays in memory when a file is opened again, as if all files fitted into it.

    Raises
    ------
    OSError
        Where this is not root, or the kernel has no FUSE.
    """
    behind = source.with_name(f"{source.name}.store")
    source.rename(behind)
    source.mkdir()
    command = [sys.executable, __file__, str(behind), str(source), str(latency), str(rate), "keep" if keep else ""]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != b"mounted\n":
            raise OSError("no store could be mounted: it needs root, and FUSE in the kernel")
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(source)], check=False)
        server.wait()
        source.rmdir()
        behind.rename(source)


def _main(behind: str, folder: str, latency: str, rate: str, keep: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"store", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    print("mounted", flush=True)
    _Server(device, Path(behind), float(latency), float(rate), bool(keep)).serve()


if __name__ == "__main__":
    _main(*sys.argv[1:])

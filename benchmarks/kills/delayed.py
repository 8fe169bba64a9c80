"""A test file system that behaves like NFS at its worst: each client sees the changes of others late.

::

    python -m benchmarks.kills.delayed SERVER_FOLDER MOUNT_POINT [--delay 5] [--lost 0.2] [--seed 0]

passes a folder (the server) through to a mount point (a client). Start it twice over one folder for two clients. It
speaks the kernel's FUSE protocol, so names, attributes, listings and data are remembered by the kernel's own caches, as
with NFS: for a random time of at most ``--delay`` seconds each, names that do not exist included. What a client
changes itself it sees at once, and forgets what it remembered of that folder.

Opening a file asks the server whether it changed (close-to-open consistency), except for the share ``--lost`` of
openings, which believe the cache, as with ``nocto``. The same share of new hard links is made while the answer is lost,
so that the repeated request is refused: the link exists already. Written data reaches the server when the file is
synchronised, looked at or closed, and not before.

It needs Linux, ``/dev/fuse`` and root. It is a simulation: nothing here says how a certain server behaves.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import random
import signal
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path

_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_BUFFER = 1 << 20
_MAX_WRITE = 128 << 10
_VERSION = (7, 31)
# Of INIT: truncate in open, large writes, drop remembered data where attributes say that it changed.
_FLAGS = 1 << 3 | 1 << 5 | 1 << 12
_KEEP_CACHE, _CACHE_LISTING = 2, 8
_INVALIDATE_INODE = 2
_SET_MODE, _SET_SIZE, _SET_TIMES = 1, 8, 16 | 32 | 128 | 256
_NO_REPLY = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET


class _Node:
    """A file or folder that the kernel knows, held open so that it keeps its identity under any name."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.known = 0
        self.written: list[tuple[int, bytes]] = []
        self.attributes = b""
        self.until = 0.0

    @property
    def path(self) -> str:
        return f"/proc/self/fd/{self.handle}"

    def settle(self) -> None:
        """Let what was written reach the server."""
        if self.written:
            writer = os.open(self.path, os.O_WRONLY)
            try:
                self.until = 0.0
                for offset, data in self.written:
                    os.pwrite(writer, data, offset)
            finally:
                os.close(writer)
                self.written = []


class Client:
    """One client of a server.

    Parameters
    ----------
    folder : Path
        What the server keeps.
    device : int
        The open ``/dev/fuse`` of the mount.
    delay : float
        Seconds for which something is remembered at most.
    lost : float
        Share of openings that believe the cache, and of links whose answer is lost.
    seed : int
    """

    def __init__(self, folder: Path, device: int, delay: float, lost: float, seed: int) -> None:
        self._device, self._delay, self._lost = device, delay, lost
        self._random = random.Random(seed)
        self._nodes = {1: _Node(os.open(folder, os.O_PATH))}
        self._answered = True
        self._next = 2
        self._by_file = {self._file(1): 1}
        self._listings: dict[int, list[tuple[str, int, int]]] = {}
        self._calls: dict[int, Callable[[int, bytes], bytes]] = {
            **{1: self._lookup, 3: self._getattr, 4: self._setattr, 9: self._mkdir, 10: self._unlink, 11: self._rmdir},
            **{12: self._rename, 13: self._link, 14: self._open, 15: self._read, 16: self._write, 17: self._statfs},
            **{18: self._settle, 20: self._settle, 25: self._settle, 26: self._init, 27: self._opendir},
            **{28: self._readdir, 29: self._releasedir, 30: self._syncdir, 35: self._create, 45: self._rename2},
        }

    def serve(self) -> None:
        """Answer the kernel until the mount ends."""
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue
                if error.errno == errno.ENODEV:
                    return
                raise
            _, code, unique, node, *_ = _IN.unpack_from(request)
            body = request[_IN.size :]
            if code in _NO_REPLY:
                self._forget(code, node, body)
                continue
            failed, answer = 0, b""
            try:
                answer = self._calls[code](node, body)
            except KeyError:
                failed = errno.ENOSYS
            except OSError as error:
                failed = error.errno or errno.EIO
            self._send(_OUT.pack(_OUT.size + len(answer), -failed, unique) + answer)

    def _send(self, message: bytes) -> None:
        try:
            os.write(self._device, message)
        except OSError as error:
            # The caller was killed meanwhile, or the kernel has forgotten the inode.
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    # -- what is remembered --------------------------------------------------------------------------------

    def _valid(self) -> tuple[int, int]:
        seconds = self._random.uniform(0.0, self._delay)
        return int(seconds), int(seconds % 1 * 1e9)

    def _file(self, node: int) -> tuple[int, int]:
        found = os.fstat(self._nodes[node].handle)
        return found.st_dev, found.st_ino

    def _attributes(self, node: int) -> bytes:
        """Ask the server for the attributes of a file, and remember them."""
        known = self._nodes[node]
        known.settle()
        found = os.fstat(known.handle)
        times = [divmod(at, 10**9) for at in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
        known.until = time.monotonic() + self._random.uniform(0.0, self._delay)
        known.attributes = _ATTR.pack(
            *(found.st_ino, found.st_size, found.st_blocks, *(at[0] for at in times), *(at[1] for at in times)),
            *(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0),
        )
        return known.attributes

    def _refresh(self, node: int) -> None:
        """Forget the attributes of a file, and let the kernel forget them, so that it asks again."""
        self._nodes[node].until = 0.0
        body = struct.pack("<Qqq", node, -1, 0)
        self._send(_OUT.pack(_OUT.size + len(body), _INVALIDATE_INODE, 0) + body)

    def _entry(self, parent: int, name: str) -> bytes:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._nodes[parent].handle)
        found = os.fstat(handle)
        key = (found.st_dev, found.st_ino)
        node = self._by_file.get(key)
        if node is None:
            node, self._next = self._next, self._next + 1
            self._nodes[node], self._by_file[key] = _Node(handle), node
        else:
            os.close(handle)
        self._nodes[node].known += 1
        seconds, rest = self._valid()
        head = struct.pack("<QQQQII", node, 0, seconds, 0, rest, 0)
        return head + self._attributes(node)

    def _forget(self, code: int, node: int, body: bytes) -> None:
        if code == 2:
            pairs = [(node, *struct.unpack_from("<Q", body))]
        elif code == 42:
            count = struct.unpack_from("<I", body)[0]
            pairs = [struct.unpack_from("<QQ", body, 8 + 16 * number) for number in range(count)]
        else:
            return
        for number, times in pairs:
            known = self._nodes.get(number)
            if known is None or number == 1:
                continue
            known.known -= times
            if known.known <= 0:
                known.settle()
                del self._by_file[self._file(number)], self._nodes[number]
                os.close(known.handle)

    def _changed(self, *nodes: int) -> None:
        """Forget what was remembered of folders in which this client has changed something."""
        for node in nodes:
            self._nodes[node].until = 0.0

    # -- calls ---------------------------------------------------------------------------------------------

    def _init(self, node: int, body: bytes) -> bytes:
        readahead, offered = struct.unpack_from("<II", body, 8)
        return struct.pack(
            "<IIIIHHIIHHI28x", *_VERSION, readahead, _FLAGS & offered, 16, 12, _MAX_WRITE, 1, _MAX_WRITE >> 12, 0, 0
        )

    def _lookup(self, node: int, body: bytes) -> bytes:
        try:
            return self._entry(node, _name(body))
        except FileNotFoundError:
            # That there is no such file is remembered as well.
            seconds, rest = self._valid()
            return struct.pack("<QQQQII", 0, 0, seconds, 0, rest, 0) + bytes(_ATTR.size)

    def _getattr(self, node: int, body: bytes) -> bytes:
        known = self._nodes[node]
        known.settle()
        # The kernel asks more often than it would over NFS: for the time of the last access, after each read.
        current = known.until > time.monotonic()
        return struct.pack("<QII", 0, 0, 0) + (known.attributes if current else self._attributes(node))

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, size, mode = struct.unpack_from("<I12xQ", body) + struct.unpack_from("<I", body, 68)
        known = self._nodes[node]
        known.settle()
        if valid & _SET_SIZE:
            os.truncate(known.path, size)
        if valid & _SET_MODE:
            Path(known.path).chmod(stat.S_IMODE(mode))
        if valid & _SET_TIMES:
            os.utime(known.path)
        known.until = 0.0
        return self._getattr(node, b"")

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", body)
        name = _name(body[8:])
        os.mkdir(name, mode & ~umask, dir_fd=self._nodes[node].handle)
        self._changed(node)
        return self._entry(node, name)

    def _unlink(self, node: int, body: bytes) -> bytes:
        os.unlink(_name(body), dir_fd=self._nodes[node].handle)
        self._changed(node)
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        os.rmdir(_name(body), dir_fd=self._nodes[node].handle)
        self._changed(node)
        return b""

    def _rename(self, node: int, body: bytes) -> bytes:
        return self._renamed(node, struct.unpack_from("<Q", body)[0], body[8:])

    def _rename2(self, node: int, body: bytes) -> bytes:
        target, flags = struct.unpack_from("<QI", body)
        if flags:
            raise OSError(errno.EINVAL, "flags of rename")
        return self._renamed(node, target, body[16:])

    def _renamed(self, node: int, target: int, names: bytes) -> bytes:
        old, new = (os.fsdecode(name) for name in names.split(b"\0")[:2])
        os.rename(old, new, src_dir_fd=self._nodes[node].handle, dst_dir_fd=self._nodes[target].handle)
        self._changed(node, target)
        return b""

    def _link(self, node: int, body: bytes) -> bytes:
        file, name = struct.unpack_from("<Q", body)[0], _name(body[8:])
        known = self._nodes[file]
        known.settle()
        os.link(known.path, name, dst_dir_fd=self._nodes[node].handle, follow_symlinks=True)
        self._changed(node)
        # Never twice in a row: an answer that is always lost is another fault.
        self._answered = self._random.random() >= self._lost or not self._answered
        if not self._answered:
            raise FileExistsError(errno.EEXIST, "made by the request whose answer was lost")
        return self._entry(node, name)

    def _open(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("<I", body)[0]
        self._nodes[node].settle()
        if flags & os.O_TRUNC:
            os.truncate(self._nodes[node].path, 0)
        if self._random.random() < self._lost:
            return struct.pack("<QII", 0, _KEEP_CACHE, 0)
        self._refresh(node)
        return struct.pack("<QII", 0, 0, 0)

    def _create(self, node: int, body: bytes) -> bytes:
        flags, mode, umask = struct.unpack_from("<III", body)
        name = _name(body[16:])
        keep = os.O_CREAT | flags & (os.O_EXCL | os.O_TRUNC)
        os.close(os.open(name, os.O_WRONLY | keep, mode & ~umask & 0o7777, dir_fd=self._nodes[node].handle))
        self._changed(node)
        return self._entry(node, name) + struct.pack("<QII", 0, 0, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        self._nodes[node].settle()
        reader = os.open(self._nodes[node].path, os.O_RDONLY)
        try:
            return os.pread(reader, size, offset)
        finally:
            os.close(reader)

    def _write(self, node: int, body: bytes) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        self._nodes[node].written.append((offset, body[40 : 40 + size]))
        return struct.pack("<II", size, 0)

    def _settle(self, node: int, body: bytes) -> bytes:
        if node in self._nodes:
            self._nodes[node].settle()
        return b""

    def _syncdir(self, node: int, body: bytes) -> bytes:
        return b""

    def _statfs(self, node: int, body: bytes) -> bytes:
        found = os.statvfs(self._nodes[node].path)
        sizes = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return struct.pack("<QQQQQIII28x", *sizes, found.f_bsize, 255, found.f_frsize)

    def _opendir(self, node: int, body: bytes) -> bytes:
        number, self._next = self._next, self._next + 1
        with os.scandir(self._nodes[node].path) as found:
            listing = [(entry.name, entry.inode(), 4 if entry.is_dir(follow_symlinks=False) else 8) for entry in found]
        self._listings[number] = listing
        # The kernel keeps a listing for as long as it believes the folder's attributes.
        return struct.pack("<QII", number, _CACHE_LISTING | _KEEP_CACHE, 0)

    def _readdir(self, node: int, body: bytes) -> bytes:
        number, offset, size = struct.unpack_from("<QQI", body)
        answer = b""
        for place, (name, inode, kind) in enumerate(self._listings[number]):
            if place < offset:
                continue
            encoded = os.fsencode(name)
            entry = struct.pack("<QQII", inode, place + 1, len(encoded), kind) + encoded
            entry += bytes(-len(entry) % 8)
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer

    def _releasedir(self, node: int, body: bytes) -> bytes:
        self._listings.pop(struct.unpack_from("<Q", body)[0], None)
        return b""


def _name(body: bytes) -> str:
    return os.fsdecode(body.split(b"\0", 1)[0])


def mount(target: Path) -> int:
    """Mount a file system that this process is going to serve; give the device.

    Raises
    ------
    OSError
        Without ``/dev/fuse``, or without the right to mount.
    """
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"stripewise", os.fsencode(target), b"fuse.delayed", 0, options) != 0:
        number = ctypes.get_errno()
        os.close(device)
        raise OSError(number, os.strerror(number), str(target))
    return device


def unmount(target: Path) -> None:
    """End a mount, also one in use."""
    detach = 2
    ctypes.CDLL(None).umount2(os.fsencode(target), detach)


def bind_alone(source: Path, target: Path) -> None:
    """Let this process and its children, and nobody else, see a folder at another place.

    Raises
    ------
    OSError
        Without the right to mount.
    """
    new_namespace, private, bind = 0x20000, 1 << 18 | 1 << 14, 1 << 12
    libc = ctypes.CDLL(None, use_errno=True)
    failed = (
        libc.unshare(new_namespace)
        or libc.mount(b"none", b"/", None, private, None)
        or libc.mount(os.fsencode(source), os.fsencode(target), None, bind, None)
    )
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def main() -> None:
    """Serve until the mount ends, or a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--delay", type=float, default=5.0)
    parser.add_argument("--lost", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    device = mount(given.target)
    signal.signal(signal.SIGTERM, lambda *_: unmount(given.target))
    try:
        Client(given.folder, device, given.delay, given.lost, given.seed).serve()
    finally:
        unmount(given.target)


if __name__ == "__main__":
    main()

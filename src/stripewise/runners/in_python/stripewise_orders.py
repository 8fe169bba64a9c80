"""Orders for the next epochs of loaders, and the answers: the files that ``native/include/formats.toml`` describes."""

from __future__ import annotations

import os
import re
import zlib

_SPECIAL = re.compile(r"[\x00-\x1f\x7f%]")
_HEADER = "stripewise-journal 1\n"


class Orders:
    """The orders of a tuner that runs beside the program, each of which one epoch carries out."""

    def __init__(self, orders: str, answers: str, *, started: float, program: str) -> None:
        self.orders, self.answers = orders, answers
        self.started, self.program = started, program
        self.read = 0
        self.waiting: list = []
        # Of processes before this one.
        self.done = max((int(one.get("order", "0")) for one in _lines(answers, 0)[0]), default=0)

    def take(self, site: str) -> tuple:
        """Give the number and the settings of the next order for a loader; 0 and none where there is no order."""
        found, self.read = _lines(self.orders, self.read)
        self.waiting += [one for one in found if int(one.get("order", "0")) > self.done]
        one = next((one for one in self.waiting if one.get("site") == site), None)
        if one is None:
            return 0, {}
        self.waiting.remove(one)
        words = [part.split(" ", 2) for part in one.get("settings", "").split(";") if part.startswith("python ")]
        return int(one["order"]), {key: value for _, key, value in words}

    def answer(self, site: str, end: float, fields: dict) -> None:
        """Append what an epoch took, by one write."""
        fields = {
            "site": site, "operation": "read", "pattern": "i", "ranks": "1", "nodes": "1", "time": f"{end:.3f}",
            "program": self.program, "driver": "DataLoader", "launch": f"{self.started:.3f}", **fields,
        }  # fmt: skip
        body = "".join(f"\t{key}={_SPECIAL.sub(_escape, value)}" for key, value in fields.items())
        body = body.encode("utf-8", "surrogateescape")
        number = os.open(self.answers, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            header = b"" if os.fstat(number).st_size else _HEADER.encode()
            os.write(number, header + b"%08x%s\n" % (zlib.crc32(body), body))
        finally:
            os.close(number)


def _lines(path: str, start: int) -> tuple:
    """Give the fields of whole lines behind a place, and the place behind them."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            text = file.read()
    except OSError:
        return [], start
    whole = text[: text.rfind(b"\n") + 1]
    found = []
    for line in whole.split(b"\n"):
        if b"%08x" % zlib.crc32(line[8:]) == line[:8]:
            parts = line[9:].decode("utf-8", "surrogateescape").split("\t")
            found.append({key: _plain(value) for key, _, value in (part.partition("=") for part in parts)})
    return found, start + len(whole)


def _escape(found) -> str:
    return f"%{ord(found[0]):02x}"


def _plain(text: str) -> str:
    return re.sub("%([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), text)

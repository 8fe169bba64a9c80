"""File layouts as commands of the file system."""

from __future__ import annotations

from collections.abc import Mapping

from stripewise.report.export.request import Export, Request, no, text
from stripewise.spec.parameter import Apply
from stripewise.spec.plan import Setting
from stripewise.spec.shell import quote

_STRIPE_STEP = 65536
_LFS_OPTIONS = {"stripe_count": "-c", "overstripe_count": "-C", "stripe_size": "-S", "pool": "-p", "start_ost": "-i"}
_CEPH_KEYS = ("stripe_unit", "stripe_count", "object_size")


def lfs(request: Request) -> Export:
    """Commands that give a directory a default layout for the files to be created in it."""
    place = quote(_operand(request.directory)) if request.directory != "DIRECTORY" else "DIRECTORY"
    lines: list[str] = []
    undo: list[str] = []
    cannot = [no(s, "is no file layout") for s in request.plan.settings if s.apply is not Apply.STRIPING]
    options: list[str] = []
    ceph: dict[str, str] = {}
    for setting in request.plan.of(Apply.STRIPING):
        refused = _refused(setting, request.stripes)
        if refused:
            cannot.append(no(setting, refused))
        elif setting.layer == "lustre":
            options += [_LFS_OPTIONS[setting.key], quote(setting.value)]
        else:
            ceph[setting.key] = setting.value
    if options:
        lines += [
            f"lfs getstripe -d {place}  # keep this: if it shows a composite layout or a pool, leave it alone",
            f"lfs setstripe {' '.join(options)} {place}",
        ]
        undo += [f"lfs setstripe -d {place}  # back to the file system's default; if it had its own, set that again"]
    if ceph:
        words = " ".join(f"{key}={ceph[key]}" for key in _CEPH_KEYS if key in ceph)
        lines += [
            f"getfattr -n ceph.dir.layout {place}  # keep this; 'no such attribute' means the parent's layout",
            f"setfattr -n ceph.dir.layout -v {quote(words)} {place}",
        ]
        undo.append(f"setfattr -x ceph.dir.layout {place}  # back to the parent's; if it had its own, set that again")
    if lines:
        undo.append("# files written in between keep their layout; copy them to change it")
    return Export(
        text(lines),
        text(undo),
        cannot,
        "run it once; only files created afterwards in the directory are laid out so",
        "what the program or ROMIO asks for at creation wins over the directory's layout; existing files keep theirs.",
        "stripewise-layout.sh",
    )


def _operand(path: str) -> str:
    """A path that no command takes for an option."""
    return f"./{path}" if path.startswith("-") else path


def _refused(setting: Setting, stripes: Mapping[str, str]) -> str:
    if setting.layer == "cephfs":
        return "" if setting.key in _CEPH_KEYS else "is no CephFS layout field"
    if setting.layer != "lustre":
        return f"belongs to the file system {setting.layer}, for which no command is known"
    if setting.key not in _LFS_OPTIONS:
        return "is no option of lfs setstripe"
    if setting.key == "stripe_count" and "overstripe_count" in stripes:
        return "excludes overstripe_count, which was kept"
    if setting.key == "stripe_size" and (not setting.value.isdigit() or int(setting.value) % _STRIPE_STEP):
        # lfs reads sizes below 4096 as KiB, and Lustre takes multiples of 64 KiB only.
        return "is no multiple of 64 KiB, which Lustre stripes are"
    return ""

"""What a file system refused is named in the reason of a failed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from stripewise.runners.judge import exit_reason

# As ROMIO, HDF5, Fortran and cp print them: dtarb/TauDEM 17, SmileiPIC/Smilei 342, h5py/h5py 1101, HDFGroup/hdf5 3311.
LOCKS = [
    "File locking failed in ADIOI_Set_lock(fd 14,cmd F_SETLKW/7,type F_WRLCK/1,whence 0) with return value FFFFFFFF "
    "and errno 25.",
    "unable to lock file, errno = 37, error message = 'No locks available'",
    "H5FD__sec2_open(): unable to lock file, errno = 37, error message = 'No locks available'",
    "flock: No locks available",
]
UNSUPPORTED = [
    "File locking failed in ADIOI_Set_lock(fd 10,cmd F_SETLKW/7,type F_RDLCK/0,whence 0) with return value FFFFFFFF "
    "and errno 26.",
    "unable to lock file, errno = 38, error message = 'Function not implemented'",
    "ADIOI_Set_lock:: Function not implemented",
]
QUOTAS = [
    "cp: error writing 'out.dat': Disk quota exceeded",
    "forrtl: Disk quota exceeded",
    "H5FD_sec2_write(): file write failed: errno = 122, error message = 'Disk quota exceeded'",
    "MPI_ERR_QUOTA: quota exceeded",
]


def reason(folder: Path, printed: str) -> str:
    (folder / "stderr").write_text(f"{printed}\nrank 0 ended\n")
    return exit_reason(1, folder / "stdout", folder / "stderr")


@pytest.mark.parametrize(
    ("printed", "named"),
    [
        *[(line, "ENOLCK: the file system grants no locks") for line in LOCKS],
        *[(line, "ENOSYS: the file system grants no locks") for line in UNSUPPORTED],
        (
            "H5FD__sec2_lock(): unable to lock file, errno = 524, error message = 'Unknown error 524'",
            "ENOTSUPP: the file",
        ),
        *[(line, "EDQUOT: a quota is used up") for line in QUOTAS],
    ],
)
def test_refused_locks_and_full_quotas_are_named(printed: str, named: str, tmp_path: Path) -> None:
    assert f"rank 0 ended ({named}" in reason(tmp_path, printed)


@pytest.mark.parametrize("printed", ["block 37 of 122", "errno 25", "no quota is set", "lock acquired", "1220 locks"])
def test_other_words_name_nothing(printed: str, tmp_path: Path) -> None:
    assert reason(tmp_path, printed) == "exit code 1: rank 0 ended"

"""ROMIO with its Lustre driver, built of Debian's MPICH source, on a file system that only says that it is Lustre."""

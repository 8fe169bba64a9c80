"""A real cluster on one machine: Slurm with four nodes, each with its own client of a CephFS with four throttled OSDs.

``python -m tests.system.testbed up`` starts it and ``down`` ends it; `make cluster-up` and `make cluster-down` call
these. Needs root, Debian's packages (:data:`PACKAGES`) and neither systemd nor containers.
"""

PACKAGES = (
    "ceph-mon",
    "ceph-osd",
    "ceph-mds",
    "ceph-mgr",
    "ceph-fuse",
    "ceph-common",
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "munge",
)

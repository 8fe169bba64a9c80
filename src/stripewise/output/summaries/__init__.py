"""Five-number summaries of repeated measurements, clusters of them, and the settings that are good whatever the load.

Benchmarks on a shared file system scatter; a configuration is described by minimum, quartiles and maximum of its
repeats, configurations of like behaviour are found by hierarchical clustering of these, and what is recommended is what
stays good at its lower quartile, not what was best once. Reads and writes are kept apart throughout.
"""

from stripewise.output.summaries.five import NUMBERS, Clusters, FiveNumbers, cluster, five_numbers
from stripewise.output.summaries.operations import (
    Consistency,
    Default,
    SettingEffect,
    SummaryReport,
    consistent,
    defaults,
    effects,
    summarise,
)

__all__ = [
    "NUMBERS",
    "Clusters",
    "Consistency",
    "Default",
    "FiveNumbers",
    "SettingEffect",
    "SummaryReport",
    "cluster",
    "consistent",
    "defaults",
    "effects",
    "five_numbers",
    "summarise",
]

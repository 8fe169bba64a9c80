"""Five-number summaries of repeated measurements, clusters of them, and the settings that are good whatever the load.

Benchmarks on a shared file system scatter; a configuration is described by minimum, quartiles and maximum of its
repeats, configurations of like behaviour are found by hierarchical clustering of these, and what is recommended is what
stays good at its lower quartile, not what was best once. Reads and writes are kept apart throughout.
"""

from stripewise.summaries.clusters import Clusters, cluster
from stripewise.summaries.defaults import Default, defaults
from stripewise.summaries.dependable import Consistency, SettingEffect, consistent, effects
from stripewise.summaries.five import NUMBERS, FiveNumbers, five_numbers
from stripewise.summaries.report import SummaryReport, summarise

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

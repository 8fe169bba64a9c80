"""Rules that tell from an activity whether a setting acted. Parameters name theirs (``evidence`` in stack files).

A rule compares what really happened to the file (which ranks wrote, in what sizes, how the file lies) with what was
asked for. It says ``effective`` or ``no_effect`` only where the facts leave no other reading, and ``effective`` only
where they differ from those of runs without the setting (:func:`comparison.compare_with_others`); all else is
``unprovable``. An echo of a hint is never evidence: ROMIO echoes hints that its driver ignores.
"""

from stripewise.observe.evidence.comparison import EFFECTIVE, NO_EFFECT, UNPROVABLE, Case, Verdict
from stripewise.observe.evidence.registry import RULES, check_evidence, list_calls

__all__ = ["EFFECTIVE", "NO_EFFECT", "RULES", "UNPROVABLE", "Case", "Verdict", "check_evidence", "list_calls"]

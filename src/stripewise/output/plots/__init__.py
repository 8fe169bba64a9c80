"""Every figure, once: reports, notebooks and pages share them.

Functions from plain data to :class:`plotly.graph_objects.Figure`. What a colour says, a symbol or a label says as well,
for colour-blind readers and for print.
"""

from stripewise.output.plots.job_io import BoundedRun, bounds
from stripewise.output.plots.parameters import Axis, Line, contour, importance, parallel_coordinates
from stripewise.output.plots.proof import ChartPoint, Limits, PairPoint, confirmation, control_chart, cost
from stripewise.output.plots.style import PALETTE, template
from stripewise.output.plots.trajectory import GuideLines, RunPoint, RunTime, timeline, trajectory

__all__ = [
    "PALETTE",
    "Axis",
    "BoundedRun",
    "ChartPoint",
    "GuideLines",
    "Limits",
    "Line",
    "PairPoint",
    "RunPoint",
    "RunTime",
    "bounds",
    "confirmation",
    "contour",
    "control_chart",
    "cost",
    "importance",
    "parallel_coordinates",
    "template",
    "timeline",
    "trajectory",
]

"""Every figure, once: reports, notebooks and pages share them.

Functions from plain data to :class:`plotly.graph_objects.Figure`. What a colour says, a symbol or a label says as well,
for colour-blind readers and for print.
"""

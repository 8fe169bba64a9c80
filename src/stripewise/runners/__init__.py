"""Runners: how a planned run is launched, watched and ended, and what came of it."""

"""From a workload to settings without a run: by a performance model, or by policies where there is none."""

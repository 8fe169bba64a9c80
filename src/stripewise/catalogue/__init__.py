"""Everything about a setting, once: what can be set, what a text means, whether it acts, what to expect of it."""

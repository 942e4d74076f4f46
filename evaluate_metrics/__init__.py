"""The metrics: one folder each, `score.py` (pure functions) next to `<name>.py` (the evaluate module) and its card."""

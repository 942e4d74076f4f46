"""The metrics: one folder each, `score.py` (pure functions) beside `<name>.py` (the evaluate module) and its card."""

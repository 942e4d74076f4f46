"""Polarity of multiple-choice answers: reversals, contradictions, and their deterministic repair (CXR-ContraBench)."""

"""The questions of a user's own table for lm-eval."""

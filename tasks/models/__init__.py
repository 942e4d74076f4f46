"""lm-eval model plug-ins: `baselines`, which need no weights."""

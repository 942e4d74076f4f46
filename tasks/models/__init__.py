"""lm-eval model plug-ins: `baselines`, which need no weights, and `hf_vlm`, image-conditioned log-likelihood."""

"""lm-eval model plug-ins: `baselines`, which need no weights; `hf_vlm`, image-conditioned log-likelihood; `contrastive`
and `explained_vlm`, which show what they look at.
"""

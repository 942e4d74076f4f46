"""lm-eval model plug-ins.

`baselines` needs no weights, `hf_vlm` adds image-conditioned log-likelihoods, `contrastive` and `explained_vlm` store
heatmaps of the regions that they use.
"""

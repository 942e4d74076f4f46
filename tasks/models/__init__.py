"""lm-eval model plug-ins, with one folder for each kind.

`reference` needs no weights, `server` asks an endpoint, `vlm` runs models of transformers, and `contrastive` and
`alignment` store heatmaps of the regions that they use. The modules next to them serve several kinds.
"""

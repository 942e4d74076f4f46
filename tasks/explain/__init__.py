"""Explanations: heatmaps by Grad-CAM and attention rollout, causal graphs, their geometry and their store."""

"""What a model looked at: heatmaps by Grad-CAM, attention rollout and causal graphs, their geometry and their store."""

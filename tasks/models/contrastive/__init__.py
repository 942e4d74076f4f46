"""`medfaith-contrastive`: models like CLIP that compare a frame with texts."""

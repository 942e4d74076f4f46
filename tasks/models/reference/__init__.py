"""Models of known behaviour: baselines without an image, and models that look at the synthetic images."""

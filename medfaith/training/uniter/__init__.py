"""Training of the UNITER of That's the Wrong Lung! from scratch."""

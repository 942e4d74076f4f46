"""Visual Perturbation Test: share of Yes answers that change to No with a perturbed image (HEAL-MedVQA)."""

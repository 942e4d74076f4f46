"""Textual Perturbation Test: share of Yes answers that change to No with a perturbed question (HEAL-MedVQA)."""

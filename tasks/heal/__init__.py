"""HEAL-MedVQA for lm-eval: closed and open questions, and the two perturbation tests."""

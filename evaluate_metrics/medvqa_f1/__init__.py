"""F1 of yes/no answers and multi-label micro F1 of open-ended answers about diseases (HEAL-MedVQA)."""

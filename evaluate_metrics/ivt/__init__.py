"""F1 of surgical instruments and average precision of action triplets (SurgXBench)."""

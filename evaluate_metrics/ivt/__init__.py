"""F1 of surgical instruments, average precision of action triplets, and the reading of answers (SurgXBench)."""

"""Finished runs of HEAL-MedVQA: samples, tables and figures."""

"""Finished runs of SurgXBench: samples, tables and figures."""

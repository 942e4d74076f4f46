"""Textual Perturbation Test: do Yes answers turn to No when the question is perturbed (HEAL-MedVQA)?"""

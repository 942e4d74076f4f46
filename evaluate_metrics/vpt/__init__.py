"""Visual Perturbation Test: do Yes answers turn to No when the image is perturbed (HEAL-MedVQA)?"""

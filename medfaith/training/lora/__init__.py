"""LoRA fine-tuning of vision-language models, as for the baselines of HEAL-MedVQA and CXR-ContraBench (Appendix H)."""

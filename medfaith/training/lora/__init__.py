"""LoRA fine-tuning of vision-language models, as the baselines of HEAL-MedVQA and of CXR-ContraBench's Appendix H."""

"""Judgement of heatmaps by a person in a browser (That's the Wrong Lung!, section 3.3 and appendix A.7)."""

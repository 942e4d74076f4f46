"""That's the Wrong Lung! for lm-eval: does attention lie where a sentence says, and follow when it changes?"""

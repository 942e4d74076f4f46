"""Location of a model's attention for a sentence, and its change with the text (That's the Wrong Lung!)."""

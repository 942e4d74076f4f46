"""Does attention lie where the sentence says, and does it follow the text (That's the Wrong Lung!)?"""

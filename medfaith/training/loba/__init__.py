"""LobA, Localize-before-Answer (HEAL-MedVQA, section 4.1): a model that marks its region with a token, <SEG>.

The state of <SEG> in the last layer of a vision-language model is the prompt of SAM's mask decoder.
"""

"""LobA's model: a language model whose token <SEG> prompts a SAM's mask decoder (HEAL-MedVQA, section 4.1)."""

"""LobA's model: a language model whose token <SEG> prompts the mask decoder of a SAM (HEAL-MedVQA, section 4.1)."""

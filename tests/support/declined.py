"""Texts that decline to answer."""

CANNOT_TELL = "I cannot determine whether there is edema from this image."
WILL_NOT = "I'm sorry, but I can't help with that."
DECLINED = (CANNOT_TELL, WILL_NOT)

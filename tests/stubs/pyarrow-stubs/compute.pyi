# pyarrow makes the functions of this module when it is imported, and ships no types of them.
from typing import Any

def __getattr__(name: str) -> Any: ...

"""YAML as tools write class names: mappings, lists and texts.

No aliases, which can stand for gigabytes in a few lines. No dates and no numbers: each scalar stays the text it is.
"""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.BaseLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.YAMLError(f"it has an alias in line {mark.line + 1}, which class names do not need")
        return super().compose_node(parent, index)


def parse(text: str) -> Any:
    """What a YAML text holds. Raises ValueError for what is no YAML, is nested too deeply, or has an alias.

    >>> parse("names: {0: Edema, 1: No finding}\\nnc: 2")
    {'names': {'0': 'Edema', '1': 'No finding'}, 'nc': '2'}
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - all it makes is texts, lists and mappings
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except TypeError:  # a list as a key
        raise ValueError("a key is no text") from None

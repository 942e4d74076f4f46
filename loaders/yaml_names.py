"""YAML as tools write class names: mappings, lists and texts.

Aliases are refused, because a few lines of them can expand to gigabytes. Dates and numbers are not converted: each
scalar stays a text.
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
    r"""Parse a YAML text.

    >>> parse("names: {0: Edema, 1: No finding}\nnc: 2")
    {'names': {'0': 'Edema', '1': 'No finding'}, 'nc': '2'}

    Args:
        text: The YAML text.

    Returns:
        Mappings, lists and texts.

    Raises:
        ValueError: The text is not YAML, is nested too deeply, or has an alias.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - the loader creates texts, lists and mappings only
    except yaml.MarkedYAMLError as error:  # its text begins with what was read, and not with what is wrong
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{error.problem or error.context}{line}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None

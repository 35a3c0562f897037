"""Objects as YAML that people read and `kubectl` takes, every text in it exact.

Written by hand because a sweep has hundreds of objects, and a general emitter takes a second for
what is here a few hundredths.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./+-]|:(?=[A-Za-z0-9/_]))*", re.ASCII)
"""Text that no reader takes for anything else, the words below left out."""
WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON leaves as it is and YAML does not, beyond the first 32."""
NO_BLOCK = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
LONGEST_KEY = 200
"""Longer ones get a line of their own; readers look only so far for the colon."""
STEP = "  "


def render_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """The objects as YAML documents, one after another; the same objects give the same text.

    What is no Unicode text at all, a half of a surrogate pair, becomes `?`.

    >>> print(render_yaml([{"a": {"b": "x: y", "c": [1, {"d": True}]}}]), end="")
    a:
      b: "x: y"
      c:
      - 1
      - d: true
    """
    return "---\n".join(_render_document(one) for one in objects)


def _render_document(value: Mapping[str, Any]) -> str:
    lines: list[str] = []
    if value:
        _add_mapping(value, "", "", lines)
    else:
        lines.append("{}")
    return "\n".join(lines) + "\n"


def _add_mapping(value: Mapping[str, Any], pad: str, first: str, lines: list[str]) -> None:
    """The lines of a mapping; the first line begins with `first`, the others with `pad`."""
    lead = first
    for key, one in value.items():
        name = _scalar(str(key))
        if len(name) > LONGEST_KEY:
            lines.append(f"{lead}? {name}")
            _add_value(f"{pad}:", one, pad, lines)
        else:
            _add_value(f"{lead}{name}:", one, pad, lines)
        lead = pad


def _add_value(lead: str, value: Any, pad: str, lines: list[str]) -> None:  # noqa: ANN401
    if isinstance(value, str):
        _add_text(lead, value, pad, lines)
    elif isinstance(value, dict) and value:
        lines.append(lead)
        inner = pad + STEP
        _add_mapping(value, inner, inner, lines)
    elif isinstance(value, list | tuple) and value:
        lines.append(lead)
        _add_items(value, pad, lines)
    else:
        lines.append(f"{lead} {_other(value)}")


def _add_items(value: Iterable[Any], pad: str, lines: list[str]) -> None:
    inner = pad + STEP
    for one in value:
        if isinstance(one, dict) and one:
            _add_mapping(one, inner, f"{pad}- ", lines)
        elif isinstance(one, list | tuple) and one:
            lines.append(f"{pad}-")
            _add_items(one, inner, lines)
        else:
            _add_value(f"{pad}-", one, pad, lines)


def _add_text(lead: str, text: str, pad: str, lines: list[str]) -> None:
    if "\n" not in text or (block := _block(text)) is None:
        lines.append(f"{lead} {_scalar(text)}")
        return
    inner = pad + STEP
    lines.append(f"{lead} {block}")
    # Only the line ends of YAML itself: what else Python splits at is not in a block.
    lines.extend(f"{inner}{line}" if line else "" for line in text.removesuffix("\n").split("\n"))


def _block(text: str) -> str | None:
    """How a block of the text's lines begins; none when it would not be the very text."""
    if text[0] in " \t\n" or NO_BLOCK.search(text) or not _is_unicode(text):
        return None
    if not text.endswith("\n"):
        return "|-"
    return "|+" if text.endswith("\n\n") else "|"


@lru_cache(maxsize=4096)
def _scalar(text: str) -> str:
    if PLAIN.fullmatch(text) and text.lower() not in WORDS:
        return text
    if not _is_unicode(text):
        text = text.encode("utf-8", "replace").decode()
    quoted = json.dumps(text, ensure_ascii=False)
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _other(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "{}"
        case list() | tuple():
            return "[]"
        case float():
            # Readers want a point before the exponent.
            return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return str(value)

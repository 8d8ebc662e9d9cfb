"""Help texts in sections; the values of a method are shown when the method is named."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from typer.core import TyperCommand

METHOD_VALUES = "Values of a method"  # the section of flags that belong to some methods only
WORDS = "happycat.words"  # the context's key for what was typed
Row = tuple[str, str]


class SectionedCommand(TyperCommand):
    """A command whose help has a section for each `rich_help_panel`, also where help is plain text.

    Of the flags in `METHOD_VALUES` those of the method that is named beside --help are shown, with its own defaults.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[Row]] = {"Arguments": [], "Options": []}
        values: dict[str, str] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(param, "rich_help_panel", None)
            if panel == METHOD_VALUES:
                values[str(param.name)] = record[0]
            else:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                sections.setdefault(panel or usual, []).append(record)
        if values:
            sections |= _values_section(values, ctx.meta.get(WORDS, ()))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _values_section(flags: dict[str, str], words: tuple[str, ...]) -> dict[str, list[Row]]:
    """The flags of the method that is among the words, or how to see those of a method."""
    from happycat.methods import METHODS  # here, because it needs torch

    method = next((word for word in words if word in METHODS), None)
    if method is None:
        return {METHOD_VALUES: [("see", f"happycat bench METHOD --help; METHOD is one of {', '.join(METHODS)}")]}
    _, config = METHODS[method]
    return {f"Values of {method}": [(flags[f.name], _text(f)) for f in fields(config) if f.name in flags]}


def _text(value: Field) -> str:
    """What a value is, and its default."""
    return value.metadata.get("help", "") + default_text(value)


def default_text(value: Field) -> str:
    """The default of a config's field in brackets; nothing where it has none."""
    default = value.default
    if default is MISSING or default is None or default == ():
        return ""
    return f" [{default:.3g}]" if isinstance(default, float) else f" [{default}]"

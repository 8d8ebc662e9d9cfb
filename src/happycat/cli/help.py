"""Help texts in sections; the values of a method are shown when the method is named."""

from __future__ import annotations

from dataclasses import MISSING, Field
from typing import Any

from typer.core import TyperCommand

from happycat.methods import METHODS

METHOD_VALUES = "Values of a method"  # the section of flags that belong to some methods only
METHODS_TAKEN = "takes_method_values"  # the attribute of a command that has such flags


class SectionedCommand(TyperCommand):
    """A command whose help has a section for each `rich_help_panel`, also where help is plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
        own = [title for title in sections if title.startswith("Values of ")]
        for title in own:
            sections[title] = sections.pop(title)  # it comes last
        if getattr(self.callback, METHODS_TAKEN, False) and not own:
            names = ", ".join(METHODS)
            sections[METHOD_VALUES] = [("see", f"happycat bench METHOD --help; METHOD is one of {names}")]
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def default_text(value: Field) -> str:
    """The default of a config's field in brackets; nothing where it has none."""
    default = value.default
    if default is MISSING or default is None or default == ():
        return ""
    return f" [{default:.3g}]" if isinstance(default, float) else f" [{default}]"

"""The numbers that the paper published, table by table.

`numbers.json` holds them under the labels of the paper's tables, as one list of flat records a table. Names
are this package's (`hardness_temperature`, `m_f`), values are as printed. A record with a `stage` is the
accuracy after that stage; one without it is a whole run's, as its table's caption says.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any


def rows(table: str) -> list[dict[str, Any]]:
    """The records of one of the paper's tables, in the paper's order.

    >>> rows("tab:unknown-class-number")[0]
    {'dataset': 'cifar100', 'method': 'vanilla_gcd', 'all': 58.72, 'old': 62.66, 'new': 32.92}
    """
    return [dict(row) for row in _tables()[table]["rows"]]


def published(table: str, metric: str, **where: Any) -> float | None:
    """The value of `metric` in the one row with all the values of `where`; None if the paper has none.

    >>> published("tab:main-all", "new", dataset="cifar100", method="happy", stage=5)
    51.3
    >>> published("tab:main-all", "new", dataset="cifar100", method="happy", stage=0) is None
    True
    """
    found = _matching(table, where)
    if len(found) > 1:
        raise ValueError(f"{len(found)} rows of {table} have {where}; name more columns, so that one is left")
    return found[0].get(metric) if found else None


def mean_over_stages(table: str, metric: str, **where: Any) -> float | None:
    """The mean of `metric` over the stages from 1 on, of the rows with all the values of `where`; None without any.

    >>> round(mean_over_stages("tab:main-all", "all", dataset="cifar100", method="happy"), 2)
    69.0
    """
    found = [row for row in _matching(table, where) if row.get("stage", 0) >= 1 and metric in row]
    if len({row["stage"] for row in found}) < len(found):
        raise ValueError(f"several rows a stage of {table} have {where}; name more columns, so that one is left")
    return fmean(row[metric] for row in found) if found else None


def _matching(table: str, where: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table that have all the values of `where`; a row without such a column has not."""
    return [row for row in rows(table) if all(name in row and row[name] == value for name, value in where.items())]


@cache
def _tables() -> dict[str, Any]:
    """All of `numbers.json`."""
    return json.loads(resources.files("happycat.benchmark.paper").joinpath("numbers.json").read_text(encoding="utf-8"))

"""LaTeX output: text and the rows of a table, with no package but booktabs."""

from __future__ import annotations

from collections.abc import Sequence

LOWER = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi"
LATER = "pi rho varsigma sigma tau upsilon varphi chi psi omega"
UPPER = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
GREEK = dict(zip("αβγδεζηθικλμνξπρςστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", f"{LOWER} {LATER} {UPPER}".split(), strict=True))
SIGNS = {
    **{"±": "pm", "×": "times", "·": "cdot", "µ": "mu", "∞": "infty", "∈": "in", "∥": "Vert"},
    **{"→": "to", "←": "leftarrow", "↑": "uparrow", "↓": "downarrow", "≤": "le", "≥": "ge", "≠": "ne", "≈": "approx"},
    **{"✓": "surd", "✔": "surd", "✗": "times", "✘": "times", "†": "dagger", "‡": "ddagger", "√": "surd"},
}
DIGITS = {
    **{digit: f"$_{n}$" for n, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{digit: f"$^{n}$" for n, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    "°": "$^\\circ$",
}
TEXT = {
    **{sign: f"\\{sign}" for sign in "%_&#${}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # at the start of a row they would belong to the \\ before it
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"–": "--", "—": "---", "−": "$-$", "…": "\\ldots{}", "“": "``", "”": "''", "‘": "`", "’": "'", "\u00a0": "~"},
}
COMMANDS = {sign: f"$\\{name}$" for sign, name in (GREEK | SIGNS).items()} | DIGITS | TEXT


def escaped(text: str) -> str:
    """The text on one line as LaTeX prints it: special characters escaped, Greek letters and signs as mathematics.

    >>> escaped("λ = 50% ± 1")
    '$\\\\lambda$ = 50\\\\% $\\\\pm$ 1'
    """
    return "".join(COMMANDS.get(character, character) for character in text.replace("\n", " "))


def row(cells: Sequence[str]) -> str:
    """A line of a tabular from cells that are LaTeX already."""
    return " & ".join(cells) + " \\\\"


def heading(labels: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The lines that head a table: two, first words above, if neighbours such as "S1 All" and "S1 Old" share them."""
    parts = [name.split(" ", 1) if " " in name else ["", name] for name in columns]
    spans: list[list] = []  # first word, first column, last column
    for i, (word, _) in enumerate(parts, len(labels) + 1):
        if spans and word and spans[-1][0] == word:
            spans[-1][2] = i
        else:
            spans.append([word, i, i])
    if all(first == last for _, first, last in spans):
        return [row([escaped(name) for name in (*labels, *columns)])]
    words = [f"\\multicolumn{{{last - first + 1}}}{{c}}{{{escaped(word)}}}" for word, first, last in spans]
    rules = [f"\\cmidrule(lr){{{first}-{last}}}" for word, first, last in spans if word]
    below = [escaped(name) for name in (*labels, *(name for _, name in parts))]
    return [row([""] * len(labels) + words), "".join(rules), row(below)]

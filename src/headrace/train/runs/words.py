"""Returns as people read them, on the screen and on pages: one place decides how many digits they have."""

from __future__ import annotations


def return_text(value: float | None) -> str:
    """Returns a return with one decimal, and below 10 with three significant digits; "-" for None."""
    if value is None:
        return "-"
    tenths = f"{value:.1f}"
    return tenths if abs(value) >= 10 or float(tenths) == value else f"{value:.3g}"

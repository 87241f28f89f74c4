"""'Did you mean': find the candidate that a mistyped word most likely means."""

from collections.abc import Iterable


def close_match(word: str, candidates: Iterable[str]) -> str | None:
    """Return the nearest candidate within one edit (two for words of six letters or more)."""
    lowered = word.lower()
    nearest: tuple[int, str] | None = None
    for candidate in candidates:
        allowed = 2 if min(len(word), len(candidate)) >= 6 else 1
        edits = _edits(lowered, candidate.lower(), allowed)
        if edits <= allowed and (nearest is None or edits < nearest[0]):
            nearest = (edits, candidate)
    return nearest[1] if nearest else None


def _edits(left: str, right: str, most: int) -> int:
    """Return the edit distance (with swaps), or `most + 1` if it is greater than `most`."""
    if abs(len(left) - len(right)) > most or len(set(left) ^ set(right)) > 2 * most:
        return most + 1
    before: list[int] = []
    above = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        row = [i]
        for j, b in enumerate(right, start=1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        if min(row) > most:
            return most + 1
        before, above = above, row
    return above[-1]

"""Rewrite the terms of all fields in plain form: `*`, `*/n`, `a`, `a-b`, `a-b/n`, `a/n`.

croniter misreads some terms: `5-5` and `59/15` mean the entire field, and weekday ranges into
Sunday lose their step. The plain form has numbers only, ranges only from a smaller to a larger
value of the field, and no Sunday written as 7. The golden tests check that croniter reads these
forms correctly.
"""

from tenantcron.cron.errors import CronError
from tenantcron.cron.fields import WEEKDAY, Field, read_value, term_error


def plain_term(field: Field, term: str) -> str:
    """Check one term and return it in the plain form."""
    base, slash, step_text = term.partition("/")
    step = _step(field, term, step_text) if slash else 1
    if base == "*":
        return f"*/{step}" if slash else "*"
    low_text, dash, high_text = base.partition("-")
    low = read_value(field, low_text, term)
    if dash:
        return _range(field, term, (low, read_value(field, high_text, term)), step)
    if slash:
        return _to_the_end(field, low, step)
    return str(_value(field, low))


def _value(field: Field, number: int) -> int:
    """Return 0 for Sunday, which may also be written as 7."""
    return 0 if field is WEEKDAY and number == 7 else number


def _step(field: Field, term: str, text: str) -> int:
    if not text.isdigit():
        raise term_error(field, term, "the step after the slash must be a number")
    step = int(text)
    if step == 0:
        raise term_error(field, term, "the step must not be 0", "write a step of 1 or more")
    if step > field.size:
        raise _step_too_large(field, term, step)
    return step


def _step_too_large(field: Field, term: str, step: int) -> CronError:
    problem = (
        f"a step of {step} is larger than the range of the field ({field.low} to {field.high}), "
        "so only the first value would ever match"
    )
    interval = f", or every: {step}{field.unit} for a fixed interval" if field.unit else ""
    return term_error(field, term, problem, f"write that value{interval}")


def _range(field: Field, term: str, ends: tuple[int, int], step: int) -> str:
    low, high = ends
    if low == high or (field is WEEKDAY and ends == (7, 0)):
        raise term_error(
            field,
            term,
            "the range starts and ends with the same value",
            f"write {_value(field, low)}",
        )
    if field is WEEKDAY and high in (0, 7):
        return ",".join(str(day % 7) for day in range(low, 8, step))
    if low > high:
        raise _backward(field, term, ends, step)
    return _plain_range(low, high, step)


def _backward(field: Field, term: str, ends: tuple[int, int], step: int) -> CronError:
    low, high = ends
    problem = "the range runs backwards"
    if low > field.high:
        return term_error(field, term, problem, f"write {_plain_range(0, high, step)}")
    if step == 1:
        rewritten = f"{_plain_range(low, field.high, 1)},{_plain_range(field.low, high, 1)}"
    else:
        turns = range(low, high + field.size + 1, step)
        rewritten = ",".join(str((n - field.low) % field.size + field.low) for n in turns)
    return term_error(field, term, problem, f"write {rewritten}")


def _to_the_end(field: Field, low: int, step: int) -> str:
    """Write `a/n` as a range; a Sunday written as 7 has nothing after it in the week."""
    if low > field.high:
        return str(_value(field, low))
    return _plain_range(low, field.high, step)


def _plain_range(low: int, high: int, step: int) -> str:
    if low == high:
        return str(low)
    return f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}"

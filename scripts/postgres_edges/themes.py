"""All themes: the statements of each, by its name."""

from . import logic, numbers, queries, text, times

MAKERS = [
    numbers.bare_literals, numbers.integer_arithmetic, numbers.float_arithmetic, numbers.numeric_arithmetic,
    numbers.mixed_arithmetic, numbers.math_functions, numbers.number_casts, numbers.conditional,
    logic.comparisons, logic.unlike_comparisons, logic.logic, logic.rows,
    text.text_functions, text.like, text.text_casts, text.bytes_,
    times.extract, times.time_arithmetic, times.interval_, times.formats,
    queries.tables, queries.where, queries.columns, queries.sets, queries.subqueries, queries.aggregates, queries.windows,
]


def themes():
    return {make.__name__.rstrip("_"): make() for make in MAKERS}

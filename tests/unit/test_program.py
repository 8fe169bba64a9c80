"""Programs of the artifact: expressions come out as they do in Python, the logarithm as it should."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.stack import load_stack, stack_names
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.formats import Op
from stripewise.models.artifact.program import apply, compile_expression, constant, depth, log2, read
from tests.python_model import run


@given(st.floats(min_value=5e-324, allow_infinity=False))
def test_the_logarithm_is_right_to_three_units_in_the_last_place(x: float) -> None:
    assert abs(float(log2(x)) - math.log2(x)) <= 3 * max(math.ulp(math.log2(x)), 5e-324)


def test_the_logarithm_of_powers_of_two_is_exact() -> None:
    exponents = np.arange(-1074, 1024)
    assert np.array_equal(log2(np.ldexp(1.0, exponents)), exponents)


def test_the_logarithm_of_what_has_none() -> None:
    found = log2([0.0, -1.0, np.inf, np.nan])
    assert found[0] == -np.inf
    assert np.isnan(found[1])
    assert found[2] == np.inf
    assert np.isnan(found[3])


@pytest.mark.parametrize(
    "text",
    [
        "a + b * 2 - c / 4",
        "a // 3 + (0 - b) // 4 + a % 7 + (0 - b) % 5",
        "min(a, b, c) + max(a, b) + abs(a - c)",
        "a < b <= c or not a == 3 and true",
        "a in (1, 2, 3) and b not in (2, 4)",
        "(a if a > b else c) + (1 if word == 'yes' else 2)",
        "word in ('no', 'yes') and word != 'no'",
        "log2(a) + log2(8)",
        "-a + 3",
    ],
)
def test_programs_say_what_expressions_say(text: str) -> None:
    codes = {"yes": 5.0, "no": 9.0}
    rng = np.random.default_rng(3)
    expression = Expression.parse(text)
    names = {"a": read(0), "b": read(1), "c": read(2), "word": read(3)}
    program = compile_expression(expression, names, lambda word: codes.get(word, -1.0))
    a, b, c = (rng.integers(1, 12, size=200).astype(float) for _ in range(3))
    words = rng.choice(["yes", "no"], size=200)
    expected = np.asarray(expression({"a": a, "b": b, "c": c, "word": words}), dtype=np.float64)
    found = run(program, [a, b, c, np.array([codes[word] for word in words])])
    assert np.allclose(found, expected, rtol=1e-15)


def test_rules_of_all_stacks_can_be_carried_out_by_the_runtime() -> None:
    codes: dict[str, float] = {}
    seen = 0
    for name in stack_names():
        stack = load_stack(name)
        known = {**Workload().words(), **{p.name: p.default for p in stack.parameters}}
        names = {word: read(place) for place, word in enumerate(known)}
        rules = [r for p in stack.parameters for r in (p.active_if, p.same_as_default) if r is not None]
        for rule in [*rules, *stack.constraints]:
            program = compile_expression(rule, names, lambda text: codes.setdefault(text, float(len(codes))))
            values = [
                codes.setdefault(v, float(len(codes))) if isinstance(v, str) else float(v) for v in known.values()
            ]
            assert bool(run(program, values)) == bool(rule(known))
            seen += 1
    assert seen > 20


def test_depth_counts_the_most_numbers_on_the_stack() -> None:
    assert depth(apply(Op.ADD, read(0), apply(Op.MULTIPLY, read(1), constant(2.0)))) == 3
    assert depth(apply(Op.SELECT, read(0), read(1), read(2))) == 3


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UserError, match="needs nodes"):
        compile_expression(Expression.parse("nodes > 1"), {}, float)


def test_a_rule_too_deep_for_the_runtime_is_refused() -> None:
    text = "(" * 40 + "a" + "".join(f" + {n})" for n in range(40))
    shallow = compile_expression(Expression.parse(text), {"a": read(0)}, float)
    assert depth(shallow) == 2
    deep = "a + (" * 40 + "a" + ")" * 40
    with pytest.raises(UserError, match="nested too deeply"):
        compile_expression(Expression.parse(deep), {"a": read(0)}, float)

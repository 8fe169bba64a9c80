"""Refusals of values in files speak in plain words."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, ValidationError

from stripewise.documents import explain_validation


class _Form(BaseModel):
    number: int = Field(1, ge=1, le=9)
    share: float = Field(0.5, gt=0, lt=1)
    switch: bool = True
    word: str = Field("a", min_length=1, max_length=3)
    several: list[int] = Field([1], min_length=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"number": 0}, "number: must be at least 1, not 0"),
        ({"number": 10}, "number: must be at most 9, not 10"),
        ({"number": "many"}, "number: must be a whole number, not 'many'"),
        ({"number": 1.5}, "number: must be a whole number, not 1.5"),
        ({"share": 0}, "share: must be greater than 0.0, not 0"),
        ({"share": 1}, "share: must be less than 1.0, not 1"),
        ({"share": "x"}, "share: must be a number, not 'x'"),
        ({"switch": "maybe"}, "switch: must be true or false, not 'maybe'"),
        ({"word": 3}, "word: must be text, not 3"),
        ({"word": "long"}, "word: must have at most 3 characters, not 'long'"),
        ({"several": 1}, "several: must be a list, not 1"),
        ({"several": []}, "several: must have at least 1 entry"),
    ],
)
def test_a_wrong_value_is_explained_in_plain_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Form.model_validate(given)
    assert explain_validation(caught.value, "f.toml").what == f"f.toml: {said}"

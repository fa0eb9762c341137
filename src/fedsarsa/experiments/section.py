"""What every section of a configuration has in common."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fedsarsa.federation.problem import MOST_STEPS

# Whatever is counted or timed has a limit, so that a slip of the finger is refused before memory is taken.
Count = Annotated[int, Field(le=1_000_000)]
Steps = Annotated[int, Field(le=MOST_STEPS)]


class Section(BaseModel):
    """A section of a configuration: no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # fields may hold lists and tables, which have no hash


def unless_given(kind: str) -> BeforeValidator:
    """Take a table without a ``kind`` for one of this kind."""
    return BeforeValidator(lambda value: {"kind": kind} | value if isinstance(value, dict) else value)

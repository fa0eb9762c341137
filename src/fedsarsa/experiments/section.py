"""What every section of a configuration has in common."""

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Section(BaseModel):
    """A section of a configuration: no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # fields may hold lists and tables, which have no hash


def unless_given(kind: str) -> BeforeValidator:
    """Take a table without a ``kind`` for one of this kind."""
    return BeforeValidator(lambda value: {"kind": kind} | value if isinstance(value, dict) else value)

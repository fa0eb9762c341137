"""What every section of a configuration has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of a configuration: no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

"""What is wrong with a configuration: each key as the file has it, its value, and what was expected."""

from typing import Any, get_args

from pydantic import ValidationError

from fedsarsa._checks import nearest
from fedsarsa.experiments.algorithm_sections import SHAPES, Algorithm
from fedsarsa.experiments.method_sections import OURS
from fedsarsa.experiments.section import Section

# What pydantic's types of errors expected, in words; limits take their number.
KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a string",
    "path_type": "a file name",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "literal_error": "{expected}",
}
LIMITS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
# Keys that say which table it is, and those that pydantic calls by another name than "kind".
KEYS = ("kind", "method", "rule")
TAGS = {"method_of()": "method", "'rule'": "rule"}
MISSING, UNKNOWN = "missing", "extra_forbidden"


def explained(error: ValidationError, content: Any, whole: type[Section], file: str) -> str:
    """Return pydantic's errors as sentences, a line for each key that is wrong in ``file``."""
    return "\n".join(f"{file}: {sentence}" for sentence in sentences(error, content, whole).values())


def sentences(error: ValidationError, content: Any, whole: type[Section]) -> dict[tuple[Any, ...], str]:
    """Return pydantic's errors as sentences, by the path of the key that is wrong.

    ``whole`` is the section that ``content``, what the file holds, was read as. A value that may be of
    several kinds has an error for each: they are put together, and those of kinds that the file did not mean
    are left out.
    """
    problems: dict[tuple[Any, ...], list[Any]] = {}
    for problem in error.errors():
        problems.setdefault(_place(problem, content), []).append(problem)
    deepest = [
        place for place in problems if not any(place == other[: len(place)] != other for other in problems)
    ]
    return {place: _sentence(place, problems[place], whole) for place in deepest}


def _place(problem: Any, content: Any) -> tuple[Any, ...]:
    """Return where the file has it: pydantic also names kinds, shapes and types on the way."""
    place: list[Any] = []
    for part in problem["loc"]:
        inside = range(len(content)) if isinstance(content, list) else content
        if isinstance(inside, dict | range) and part in inside:
            content = content[part]
        elif not (problem["type"] == MISSING and part == problem["loc"][-1]):
            continue
        place.append(part)
    return tuple(place)


def _sentence(place: tuple[Any, ...], problems: list[Any], whole: type[Section]) -> str:
    """Return what is wrong at one place."""
    name, first = ".".join(str(part) for part in place), problems[0]
    given, context = first["input"], first.get("ctx", {})
    match first["type"]:
        case "extra_forbidden":
            valid = _keys(first["loc"][:-1], whole)
            near = _elsewhere(place[-1], whole) or nearest(place[-1], valid)
            if kinds := _other_kinds(place, whole):
                near = f" of this kind, but one of kind {' or '.join(kinds)}"
            return f"{name}: unknown key{near}; valid: {', '.join(valid)}"
        case "missing":
            return f"{name}: expected a value, got none"
        case "union_tag_not_found":
            others = "" if context["discriminator"] == "'kind'" else "a number, a list or "
            return f"{name}: expected {others}a table with a kind, got {given!r}"
        case "union_tag_invalid":
            tags = [tag.strip("'") for tag in context["expected_tags"].split(", ")]
            if not isinstance(given, dict):
                others = "".join(f"a {tag} or " for tag in tags if tag in SHAPES)
                return f"{name}: expected {others}a table with a kind, got {given!r}"
            valid, tag = [tag for tag in tags if tag not in SHAPES], context["tag"]
            key = TAGS.get(context["discriminator"], "kind")
            return f"{name}.{key}: expected {' or '.join(valid)}, got {tag!r}{nearest(tag, valid)}"
        case "value_error":
            return f"{name}: {context['error']}"
    return f"{name}: expected {_expected(problems)}, got {given!r}"


def _elsewhere(key: Any, whole: type[Section]) -> str:
    """Return a hint at the sections of the file that have this key, or nothing."""
    found = [
        f"'{section}.{key}'"
        for section, field in whole.model_fields.items()
        if any(key in table.model_fields for table in tables(field.annotation))
    ]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _other_kinds(place: tuple[Any, ...], whole: type[Section]) -> list[str]:
    """Return the kinds of tables that may stand at a place and have its last key."""
    found: list[type[Section]] = [whole]
    for part in place[:-1]:
        inside = [one.model_fields[part].annotation for one in found if part in one.model_fields]
        found = [table for annotation in inside for table in tables(annotation)]
    return sorted(
        {
            kind
            for one in found
            if "kind" in one.model_fields and place[-1] in one.model_fields
            for kind in get_args(one.model_fields["kind"].annotation)
        }
    )


def _expected(problems: list[Any]) -> str:
    """Return what a value should have been: within its limits, or of one of several kinds."""
    limits = [LIMITS[one["type"]].format(**_plain(one["ctx"])) for one in problems if one["type"] in LIMITS]
    kinds = [KINDS.get(one["type"], one["msg"]).format(**one.get("ctx", {})) for one in problems]
    if "a number" in kinds:  # which whole ones are too
        kinds = [kind for kind in kinds if kind != "a whole number"]
    return " or ".join(dict.fromkeys(limits or kinds))


def _plain(context: dict[str, Any]) -> dict[str, Any]:
    """Return numbers as people write them: 2, not 2.0."""
    return {
        name: int(one) if isinstance(one, float) and one.is_integer() else one
        for name, one in context.items()
    }


def _keys(place: tuple[Any, ...], whole: type[Section]) -> list[str]:
    """Return the valid keys of the section at ``place``, a path through fields, kinds, shapes and numbers."""
    found: list[type[Section]] = [whole]
    for part in place:
        inside = [one.model_fields[part].annotation for one in found if part in one.model_fields]
        alike = [one for one in found if part in _kind(one)]
        found = [table for annotation in inside for table in tables(annotation)] or alike or found
    return sorted({name for one in found for name in one.model_fields})


def _kind(section: type[Section]) -> tuple[Any, ...]:
    """Return the kind of a section, or its method or server rule, if it has one."""
    kind = next((section.model_fields[key] for key in KEYS if key in section.model_fields), None)
    if kind is None:
        return (OURS,) if issubclass(section, Algorithm) else ()
    return get_args(kind.annotation)


def tables(annotation: Any) -> list[type[Section]]:
    """Return the sections inside a field's annotation."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Section) else []
    found = [section for part in getattr(annotation, "__args__", ()) for section in tables(part)]
    return list(dict.fromkeys(found))

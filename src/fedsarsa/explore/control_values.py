"""What a view shows, as plain values: keys of the configuration, in the address and on the controls.

A value is written as in TOML, words without quotation marks. Nothing else is read from an address: no name of
a file, and no code.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import ValidationError

from fedsarsa._checks import nearest
from fedsarsa.experiments.config import Config
from fedsarsa.experiments.config_errors import sentences
from fedsarsa.experiments.method_sections import OURS
from fedsarsa.explore.controls import EVERY, FLEET_KIND, METHOD, WORLD, Control, Place, settings_of, shown

Values = dict[str, Any]
FILE = "file"  # key of an address: the name of the file that its settings change


class SettingsError(ValueError):
    """Settings that cannot be trained: ``errors`` holds a message for every control that caused one.

    Messages that belong to no control are under the empty key.
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("\n".join(errors.values()))
        self.errors = dict(errors)


@dataclass(frozen=True, eq=False)
class Base:
    """What controls change: a configuration as TOML gives it, the folder of its files, and its own name.

    Keys that no control has stay as they are here.
    """

    content: dict[str, Any]
    folder: Path
    name: str = ""

    def available(self, controls: Iterable[Control]) -> tuple[Control, ...]:
        """The controls without those of sections that are beyond them, such as worlds from a file."""
        kept, found = [], []
        if isinstance(self.content["algorithm"]["step_size"], list):
            kept.append("algorithm.step_size.")
        for one in controls:
            value = lookup(self.content, one.key)
            if one.key.endswith(".kind") and isinstance(value, str) and value not in one.options:
                one = replace(one, options=(*one.options, value))  # its numbers stay as in the file
            elif isinstance(value, dict) or (one.has_words and value not in (None, *one.options)):
                kept.append(one.key.rpartition(".")[0] + ".")  # such as a temperature that follows a schedule
            left_out = one.needs == (FLEET_KIND, self.content["fleet"].get("kind")) and value is None
            if not (left_out and one.range):  # another key has its place, such as tables for agents
                found.append(one)
        return tuple(one for one in found if not one.key.startswith(tuple(kept)))


def base_of(config: Config | None = None, folder: Path = Path(), name: str = "") -> Base:
    """The base of a configuration, of the published setting unless given; ``name`` is that of its file."""
    content = _without_none((config or Config()).model_dump(mode="json"))
    algorithm = content["algorithm"]
    if not isinstance(algorithm["step_size"], dict | list):
        algorithm["step_size"] = {"kind": "constant", "value": algorithm["step_size"]}
    if "method" not in algorithm and "server" not in algorithm:  # the mean's arguments stand in its place
        given = {name: algorithm.pop(name) for name in ("weights", "radius") if name in algorithm}
        algorithm["server"] = {"kind": "mean", **given}
    return Base(content, folder, name)


def control_base() -> Base:
    """Sixteen carts whose physics differ, and a training that takes about a second."""
    carts = {"kind": "control", "world": "CartPole", "agents": 16, "spread": 0.2}
    plain = {"fleet": carts, "training": {"steps": 20_000, "runs": 4}}
    values = {WORLD: "CartPole"} | settings_of("CartPole")
    return base_of(config_of(base_of(Config.model_validate(plain)), values))


def first_values(base: Base, controls: Iterable[Control]) -> Values:
    """The value of every control that is there at first."""
    every = base.available(controls)
    known = {one.key: lookup(base.content, one.key) for one in every}
    return only_shown(every, {key: value for key, value in known.items() if value is not None})


def only_shown(controls: tuple[Control, ...], values: Mapping[str, Any]) -> Values:
    """The values of the controls that are there; of those that have come, their defaults."""
    kinds = {one.key: one.default for one in controls if one.chooses_kind}
    return {one.key: values.get(one.key, one.default) for one in shown(controls, kinds | dict(values))}


def places(controls: tuple[Control, ...], values: Mapping[str, Any]) -> dict[Place, Any]:
    """The values of the controls that are there, by where they stand."""
    return {one.place: values[one.key] for one in shown(controls, values) if one.key in values}


def with_given(
    controls: tuple[Control, ...], known: Mapping[Place, Any], values: Values, given: Values
) -> Values:
    """Values after some were given: controls that have come have what is known of them, or their defaults."""
    kinds = {one.key: known.get(one.place, one.default) for one in controls if one.chooses_kind}
    there = shown(controls, kinds | values | given)
    return {one.key: given.get(one.key, known.get(one.place, one.default)) for one in there}


def from_query(text: str, base: Base, controls: Sequence[Control]) -> tuple[Values, dict[str, str]]:
    """The values of an address's query, and what is wrong with keys that no control has.

    Keys that only other views have are left to them.
    """
    every = base.available(controls)
    given = _given(text)
    known, others = {one.key for one in every}, foreign(text, controls).keys()
    errors = {
        key: f"address: {key}: unknown key{nearest(key, sorted(known))}; valid: {', '.join(sorted(known))}"
        for key in given.keys() - known - others - {FILE}
    }
    if given.get(FILE, base.name) != base.name:
        errors[FILE] = wrong_file(str(given[FILE]), base.name)
    for key in given.keys() & known:
        options = [word for one in every if one.key == key and one.has_words for word in one.options]
        if isinstance(given[key], dict):
            errors[key] = (
                f"address: {key}: expected a number, a word or a list, got {written(given.pop(key))}"
            )
        elif options and given[key] not in options:
            said = f"{key}: expected {' or '.join(dict.fromkeys(options))}, got {given[key]!r}"
            errors[key] = f"address: {said}{nearest(str(given.pop(key)), options)}"
    values = first_values(base, every)
    state = values | given
    for key in given.keys() & known:
        everywhere = [one for one in every if one.key == key and one.needs is None]
        needs = [one.needs for one in every if one.key == key and one.needs is not None]
        if not everywhere and not any(state.get(need[0]) == need[1] for need in needs):
            chooser, kinds = needs[0][0], " or ".join(need[1] for need in needs)
            errors[key] = f"address: {key}: expected {chooser} = {kinds}, got {state.get(chooser)}"
    if WORLD in given and given[WORLD] != values.get(WORLD):
        given = settings_of(given[WORLD]) | given
    own = {key: value for key, value in given.items() if key in known}
    return with_given(every, places(every, values), values, own), errors


def foreign(text: str, controls: Iterable[Control]) -> Values:
    """The values of a query that only other views have controls for."""
    others = {one.key for one in EVERY} - {one.key for one in controls}
    return {key: value for key, value in _given(text).items() if key in others}


def without(text: str, keys: Sequence[str]) -> tuple[dict[str, str], str]:
    """What some keys of a query say, and the query without them."""
    every = parse_qsl(text.removeprefix("?"), keep_blank_values=True)
    return {key: value for key, value in every if key in keys}, "?" + urlencode(
        [(key, value) for key, value in every if key not in keys]
    )


def whole_query(base: Base, values: Values, controls: Sequence[Control], others: Values) -> str:
    """The query of an address that restores values, and those of other views.

    It names the file of the base where the published setting would not do in its place.
    """
    if not base.name:
        return to_query(others | values)
    plain = control_base() if base.content["fleet"].get("kind") == "control" else base_of()
    again, errors = from_query(to_query(values), plain, controls)
    alike = not errors and content_of(plain, again) == content_of(base, values)
    return to_query(({} if alike else {FILE: base.name}) | others | values)


def wrong_file(wanted: str, got: str) -> str:
    """Why an address whose settings change a file's cannot be shown."""
    return (
        f"address: {FILE}: expected a page that was opened with {wanted}, got one with {got or 'no file'}: "
        f"fedsarsa explore {wanted} 'http://...'"
    )


def _given(text: str) -> Values:
    return {key: parsed(value) for key, value in parse_qsl(text.removeprefix("?"), keep_blank_values=True)}


def to_query(values: Mapping[str, Any]) -> str:
    """The query of an address that restores the values."""
    return "?" + urlencode({key: written(value) for key, value in values.items()})


def parsed(text: str) -> Any:
    """A value from its text: as in TOML, and words without quotation marks."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text


def written(value: Any) -> str:
    """A value as text that ``parsed`` reads."""
    if isinstance(value, str):
        return value if parsed(value) == value else toml(value)
    return toml(value)


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {toml(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(one) for one in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value)


def content_of(base: Base, values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with these values, as TOML gives it."""
    content = deepcopy(base.content)
    method = values.get(METHOD)
    if method is not None and method != content["algorithm"].get("method", OURS):
        other = {"method": method, "step_size": {}}
        content["algorithm"] = base_of().content["algorithm"] if method == OURS else other
    if values.get(WORLD) != content["fleet"].get("world"):
        content["fleet"] |= {"physics": {}, "vary": {}}  # another world has physics of its own
    for key, value in values.items():
        if key.endswith(".kind") and lookup(content, key) != value:
            _assign(content, key.removesuffix(".kind"), {})  # another kind has keys of its own
    for key, value in values.items():
        _assign(content, key, None if isinstance(value, str) and not value else value)
    return _shortest(_without_none(content))


def _shortest(content: dict[str, Any]) -> dict[str, Any]:
    """A constant step size as a number; the plain mean and FedSARSA as nothing at all."""
    algorithm, step_size = content["algorithm"], content["algorithm"]["step_size"]
    if algorithm.get("method") == OURS:
        del algorithm["method"]
    if isinstance(step_size, dict) and step_size.keys() == {"kind", "value"}:
        algorithm["step_size"] = step_size["value"]
    if algorithm.get("server") == {"kind": "mean"}:
        del algorithm["server"]
    return content


def config_of(base: Base, values: Mapping[str, Any]) -> Config:
    """The configuration with these values.

    Raises
    ------
    SettingsError
        A value is not valid; messages are those of the command line.
    """
    content = content_of(base, values)
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        errors = {}
        for place, sentence in sentences(error, content, Config).items():
            parts = [str(part) for part in place]
            inside = [key for key in values if _inside(key.split("."), parts)]
            inside = inside or [key for key in values if _inside(key.split(".")[:-1], parts)]
            errors[max(inside, key=len, default="")] = sentence
        raise SettingsError(errors) from None


def blamed(message: str, keys: Iterable[str]) -> str:
    """The key of the control that an error is about; empty if it names none."""
    named = re.findall(r"\w+", message)
    parts = {key: key.split(".")[1:] or [key] for key in keys}
    own = (key for word in named for key, names in parts.items() if word == names[-1])
    section = (key for word in named for key, names in parts.items() if word in names)
    return next(own, next(section, ""))


def lookup(content: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key, None where there is none."""
    found: Any = content
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _assign(content: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    for part in above:
        content = content.setdefault(part, {})
    content[last] = value


def _inside(key: list[str], place: list[str]) -> bool:
    """Whether the parts of a key are in a place in their order; places also name kinds."""
    rest = iter(place)
    return all(part in rest for part in key)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return value

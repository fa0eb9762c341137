"""Buttons that take a view's settings and numbers elsewhere."""

import io
from collections.abc import Iterable
from typing import Any

import panel as pn

from fedsarsa.explore import exports

# Elsewhere than on loopback browsers give pages no clipboard, but may copy what is selected; if not, we do.
COPY = """
const done = () => {
  button.setv({label: "Copied"}, {sync: false})
  setTimeout(() => button.setv({label: "%s"}, {sync: false}), 1500)
}
const select = () => {
  const area = document.createElement("textarea")
  area.value = text.value
  document.body.append(area)
  area.select()
  const copied = document.execCommand("copy")
  area.remove()
  if (copied) done()
  else text.setv({visible: true}, {sync: false})
}
if (navigator.clipboard) navigator.clipboard.writeText(text.value).then(done, select)
else select()
"""


class Downloads:
    """Copy as Python or TOML; download files of what is drawn, each as soon as there is something in it.

    Parameters
    ----------
    name : str
        How names of files begin.
    files : mapping
        Name of what can be downloaded -> the ending of the file, and how it is made of what is drawn and
        the settings.
    copies : bool
        Whether there are settings to copy.
    """

    def __init__(self, name: str, files: exports.Files, copies: bool = True) -> None:
        self._files = files
        self._offered: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._texts = {one: pn.widgets.TextAreaInput(visible=False) for one in ("Python", "TOML")}
        self._copies = {one: self._copy(one, text) for one, text in self._texts.items()} if copies else {}
        self._buttons = {one: self._file(one, f"{name}.{ending}") for one, (ending, _) in files.items()}
        rows = [pn.FlexBox(*self._copies.values(), *self._texts.values())] if copies else []
        self.layout = pn.Card(
            *rows,
            pn.FlexBox(*self._buttons.values()),
            title="Take it with you",
            sizing_mode="stretch_width",
            css_classes=["group"],
        )

    def refresh(self, content: dict[str, Any]) -> None:
        """Take the settings that are shown now."""
        for one, made in (("Python", exports.python(content)), ("TOML", exports.toml_text(content))):
            self._texts[one].value = made
            self._copies[one].disabled = False

    def forget(self) -> None:
        """Copy nothing: what is shown cannot be trained, or is not yet known."""
        for button in self._copies.values():
            button.disabled = True

    def offer(self, drawn: Any, content: dict[str, Any], names: Iterable[str] | None = None) -> None:
        """Take what is drawn now, and its settings, into the files of these ``names``, or into all."""
        for one in self._files if names is None else names:
            self._offered[one] = drawn, content
            self._buttons[one].disabled = False

    def made(self, name: str) -> bytes:
        """A file, of what was offered last."""
        return self._files[name][1](*self._offered[name])

    def _copy(self, name: str, text: pn.widgets.TextAreaInput) -> pn.widgets.Button:
        label = f"Copy as {name}"
        button = pn.widgets.Button(name=label, width=130, margin=4, disabled=True)
        button.js_on_click(args={"text": text, "button": button}, code=COPY % label)
        return button

    def _file(self, name: str, filename: str) -> pn.widgets.FileDownload:
        return pn.widgets.FileDownload(
            callback=lambda: io.BytesIO(self.made(name)),
            filename=filename,
            label=name,
            width=62 + 7 * max(0, len(name) - 6),
            margin=4,
            disabled=True,
        )

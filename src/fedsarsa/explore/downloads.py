"""Buttons that take a view's settings and numbers elsewhere."""

import io
from collections.abc import Callable
from typing import Any

import panel as pn

from fedsarsa.explore import exports


class Downloads:
    """Copy as Python or TOML; download PNG, SVG, CSV and netCDF.

    Parameters
    ----------
    files : mapping
        Name of what can be downloaded -> the ending of the file, and how it is made of what is drawn and
        the settings.
    drawn : function
        What is drawn now; None: nothing.
    """

    def __init__(self, files: exports.Files, drawn: Callable[[], Any]) -> None:
        self.drawn = drawn
        self.content: dict[str, Any] = {}
        self._texts = {name: pn.widgets.TextAreaInput(visible=False) for name in ("Python", "TOML")}
        copies = []
        for name, text in self._texts.items():
            button = pn.widgets.Button(name=f"Copy as {name}", width=130, margin=4)
            button.js_on_click(args={"text": text}, code="navigator.clipboard.writeText(text.value)")
            copies += [button, text]
        buttons = [self._file(name, *how) for name, how in files.items()]
        self.layout = pn.Card(
            pn.FlexBox(*copies),
            pn.FlexBox(*buttons),
            title="Take it with you",
            sizing_mode="stretch_width",
            css_classes=["group"],
        )

    def refresh(self, content: dict[str, Any]) -> None:
        """Take the settings that are shown now."""
        self.content = content
        self._texts["Python"].value = exports.python(content)
        self._texts["TOML"].value = exports.toml_text(content)

    def _file(self, name: str, ending: str, make: Any) -> pn.widgets.FileDownload:
        def made() -> io.BytesIO:
            drawn = self.drawn()
            if drawn is None:
                raise ValueError("nothing has been trained yet")
            return io.BytesIO(make(drawn, self.content))

        return pn.widgets.FileDownload(
            callback=made, filename=f"federation.{ending}", label=name, width=62, margin=4
        )

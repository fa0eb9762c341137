"""Buttons that take a view's settings and numbers elsewhere."""

import io
from collections.abc import Callable
from typing import Any

import panel as pn

from fedsarsa.explore import exports
from fedsarsa.explore.measurements import Trained
from fedsarsa.explore.theory_answers import Predicted

Known = Callable[[], tuple[Trained | None, Predicted | None]]


class Downloads:
    """Copy as Python or TOML; download PNG, SVG, CSV and netCDF.

    Parameters
    ----------
    known : function
        The training and the prediction that are drawn now.
    """

    def __init__(self, known: Known) -> None:
        self.known = known
        self.content: dict[str, Any] = {}
        self._texts = {name: pn.widgets.TextAreaInput(visible=False) for name in ("Python", "TOML")}
        copies = []
        for name, text in self._texts.items():
            button = pn.widgets.Button(name=f"Copy as {name}", width=130, margin=4)
            button.js_on_click(args={"text": text}, code="navigator.clipboard.writeText(text.value)")
            copies += [button, text]
        files = [self._file(name, *how) for name, how in exports.FILES.items()]
        self.layout = pn.Card(
            pn.FlexBox(*copies),
            pn.FlexBox(*files),
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
            trained, predicted = self.known()
            if trained is None:
                raise ValueError("nothing has been trained yet")
            return io.BytesIO(make(trained, predicted, self.content))

        return pn.widgets.FileDownload(
            callback=made, filename=f"federation.{ending}", label=name, width=62, margin=4
        )

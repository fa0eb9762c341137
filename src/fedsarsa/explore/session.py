"""One open tab: its document, its address, and what ends with it."""

from collections.abc import Callable, Sequence
from functools import partial

import panel as pn
from panel.io import hold

from fedsarsa.explore import page


class Session:
    """The tab whose page is being built: the name of its view among those of the server.

    Attributes
    ----------
    head : panel.Column
        Links to all views, which keep the settings of the address.
    """

    def __init__(self, view: str, views: Sequence[str]) -> None:
        self._view, self._views = view, views
        self._links = page.frame()
        self._query = pn.widgets.TextInput(visible=False)
        self._query.jscallback(value="history.replaceState(null, '', location.pathname + cb_obj.value)")
        self.head = pn.Column(self._links, self._query, sizing_mode="stretch_width", margin=0)
        document = pn.state.curdoc
        assert document is not None  # a page is being built
        self._document = document
        self._open = True
        self._ends: list[Callable[[], None]] = []
        self._document.template_variables["app_favicon"] = "data:,"
        pn.state.on_session_destroyed(self._end)
        self._links.object = page.navigation(views, view, "")

    def at_first(self, work: Callable[[], None]) -> None:
        """Do something when the page is in the browser, which then takes every change."""
        pn.state.onload(work)

    def later(self, work: Callable[[], None]) -> None:
        """Do something to the page when it is free, in one message; may be called from any thread."""
        if self._open:
            self._document.add_next_tick_callback(partial(self.at_once, work))

    def at_once(self, work: Callable[[], None]) -> None:
        """Do something to the page, and send all of it in one message: browsers then draw once."""
        with hold(self._document):
            work()

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something to the page after a while."""
        self._document.add_timeout_callback(partial(self.at_once, work), int(1000 * seconds))

    def every(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something to the page again and again."""
        pn.state.add_periodic_callback(work, int(1000 * seconds))

    def address(self, query: str, own: str = "") -> None:
        """Put the settings into the address and the links, without loading the page again.

        What is only the view's ``own`` stays out of the links to others. The browser's Back leaves the view:
        changes are no pages of their own.
        """
        self._links.object = page.navigation(self._views, self._view, query, own)
        self._query.value = query + own

    def at_end(self, work: Callable[[], None]) -> None:
        """Do something when the tab is closed."""
        self._ends.append(work)

    def _end(self, _: object) -> None:
        self._open = False
        for work in self._ends:
            work()

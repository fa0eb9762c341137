"""A tab without a browser: its view, whose work is done when it is asked for."""

import time

from fedsarsa.explore.session import Session


class Tab(Session):
    """A session whose page nobody sees: what is to be done later is done by `work`."""

    def __init__(self):
        self.head, self.query = None, ""
        self.ends, self.first, self.waiting, self.later_on = [], [], [], []

    def at_first(self, work):
        """Do it when the tab is opened."""
        self.first.append(work)

    def later(self, work):
        """Do it when the tab works."""
        self.waiting.append(work)

    def at_once(self, work):
        """Do it."""
        work()

    def after(self, seconds, work):
        """Do it when the test says so."""
        self.later_on.append(work)

    def every(self, seconds, work):
        """Never."""

    def address(self, query, own=""):
        """Keep the query."""
        self.query = query + own

    def at_end(self, work):
        """Keep it for the end."""
        self.ends.append(work)


def wait(tab, done, seconds=60):
    """Work until ``done()``."""
    begun = time.monotonic()
    while not done():
        assert time.monotonic() - begun < seconds, "waited in vain"
        while tab.waiting:
            tab.waiting.pop(0)()
        time.sleep(0.01)


def opened(make, base, query=""):
    """A view in a tab that has been opened."""
    tab = Tab()
    view = make(base, query, tab)
    view.tab = tab
    for work in tab.first:
        work()
    return view

"""The Flower client app: hands a round to the agent process beside it, and its answer back.

It may be started anew for every message, so it knows nothing and imports little; ``wire.py`` says how the
two files travel.
"""

import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from . import wire

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of the agent whose socket the SuperNode was started with (``agent="PATH"``)."""
    begun = time.perf_counter()
    try:
        config = message.content.config_records["config"]
        address = Path(str(context.node_config["agent"]))
        theta = message.content.array_records["arrays"]["theta"].data
        limits = {name: float(config[name]) for name in ("wait", "work")}  # type: ignore[arg-type]
        header, answer = wire.ask(address, config["request"], theta, **limits)  # type: ignore[arg-type]
    except (OSError, KeyError, ValueError, TypeError, OverflowError) as error:
        return reply(message, {"unreachable": str(error)})
    return reply(message, {"reply": header, "seconds": time.perf_counter() - begun}, answer)


def reply(message: Message, config: dict[str, str | bytes | float], answer: bytes = b"") -> Message:
    """The reply that tells the server what the agent said, or that it said nothing."""
    content = RecordDict({"config": ConfigRecord(config)})  # type: ignore[arg-type]
    if answer:
        content["arrays"] = parameters(answer)
    return Message(content, reply_to=message)


def parameters(content: bytes) -> ArrayRecord:
    """The bytes of a vector of float64 as Flower carries them."""
    return ArrayRecord({"theta": Array("float64", (len(content) // 8,), "fedsarsa", content)})

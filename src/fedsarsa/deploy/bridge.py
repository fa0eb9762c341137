"""The Flower client app: hands a round to the agent process beside it, and its answer back.

It may be started anew for every message, so it knows nothing and imports little; ``wire.py`` says how the
two files travel.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from . import wire

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of the agent whose socket the SuperNode was started with (``agent="PATH"``)."""
    begun = time.perf_counter()
    header: dict[str, Any]
    try:
        request = json.loads(str(message.content.config_records["config"]["request"]))
        theta = message.content.array_records["arrays"]["theta"].numpy()
        header, answer = wire.ask(Path(str(context.node_config["agent"])), request, theta)
    except (OSError, KeyError, ValueError, TypeError, OverflowError, RecursionError) as error:
        header, answer = {"unreachable": str(error)}, np.zeros(0)
    header["bridge_seconds"] = time.perf_counter() - begun
    return reply(message, header, answer)


def reply(message: Message, header: dict[str, Any], answer: wire.Floats) -> Message:
    """The reply that tells the server what the agent said."""
    content = RecordDict(
        {
            "arrays": ArrayRecord({"theta": Array(answer)}),
            "metrics": MetricRecord({"weight": 1.0}),
            "config": ConfigRecord({"reply": json.dumps(header)}),
        }
    )
    return Message(content, reply_to=message)

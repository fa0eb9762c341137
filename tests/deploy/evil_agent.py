"""An agent process whose every answer is wrong, each in another way: python -m tests.deploy.evil_agent."""

import json
import os
import socket
import sys
from pathlib import Path

import numpy as np

from fedsarsa.deploy import federation_config, wire
from fedsarsa.deploy.agent import Agent, reply


def spoil(number, header, answer, last):
    kind = (number - 1) % 4
    if kind == 0:
        return header, answer * np.nan
    if kind == 1:
        return header, answer + 1e9
    if kind == 2:
        return header, np.append(answer, 0.0)
    return last or ({**header, "round": number - 1}, answer)


def main(path, number, home):
    settings = federation_config.load(Path(path))
    agent, said, last = Agent(settings, int(number), Path(home)), None, None
    os.umask(0o177)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(home) / "agent.sock"))
        listener.listen()
        print("the evil agent listens on its socket", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                header, theta = reply(agent, *wire.receive_request(connection))
                if "refused" in header:
                    wire.send(connection, json.dumps(header).encode(), theta)
                    continue
                answer = wire.unpacked(theta)
                if said and said[0]["round"] != agent.round:
                    last = said  # what it said in an earlier round
                said = header, answer
                header, answer = spoil(agent.round, *said, last)
                wire.send(connection, json.dumps(header).encode(), wire.packed(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])

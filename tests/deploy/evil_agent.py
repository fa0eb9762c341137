"""An agent process whose every answer is wrong, each in another way: python -m tests.deploy.evil_agent."""

import os
import socket
import sys
from pathlib import Path

import numpy as np

from fedsarsa.deploy import config, wire
from fedsarsa.deploy.agent import Agent, RefusalError


def spoil(number, header, answer, last):
    kind = (number - 1) % 4
    if kind == 0:
        return header, answer * np.nan
    if kind == 1:
        return header, answer + 1e9
    if kind == 2:
        return header, np.append(answer, 0.0)
    return last or (header, answer[:-1])


def main(path, number, home):
    settings = config.load(Path(path))
    agent, said, last = Agent(settings, int(number), Path(home)), None, None
    os.umask(0o177)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(home) / "agent.sock"))
        listener.listen()
        print("the evil agent listens on its socket", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                request, theta = wire.receive(connection)
                header = {"agent": agent.number, "terms": agent.terms}
                try:
                    answer = agent.take_part(request, theta)
                except RefusalError as refusal:
                    wire.send(connection, header | {"refused": str(refusal)}, np.zeros(0))
                    continue
                header |= {"round": agent.round, "federation": agent.federation}
                if said and said[0]["round"] != agent.round:
                    last = said  # what it said in an earlier round
                said = header, answer
                wire.send(connection, *spoil(agent.round, *said, last))


if __name__ == "__main__":
    main(*sys.argv[1:])

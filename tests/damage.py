"""Ways in which a file comes to harm."""


def bit(rng, content):
    place = rng.integers(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.integers(8))]) + content[place + 1 :]


def zeros(rng, content):
    size = min(int(rng.choice([1, 64, 512, 4096])), len(content))
    place = rng.integers(len(content) - size + 1)
    return content[:place] + bytes(size) + content[place + size :]


def noise(rng, content):
    size = min(int(rng.choice([1, 64, 512])), len(content))
    place = rng.integers(len(content) - size + 1)
    return content[:place] + rng.bytes(size) + content[place + size :]


def scattered(rng, content):
    damaged = bytearray(content)
    for place in rng.integers(len(content), size=400):
        damaged[place] = rng.integers(256)
    return bytes(damaged)


def cut(rng, content):
    return content[: rng.integers(len(content))]


def cut_near_its_end(rng, content):
    return content[: len(content) - 1 - rng.integers(200)]


def longer(rng, content):
    return content + rng.bytes(rng.integers(1, 200))


def hole(rng, content):
    first, last = sorted(rng.integers(len(content), size=2))
    return content[:first] + content[last + 1 :]


def moved(rng, content):
    first, last = sorted(rng.integers(len(content), size=2))
    return content[last:] + content[first:last] + content[:first]


KINDS = (bit, zeros, noise, scattered, cut, cut_near_its_end, longer, hole, moved)


def damaged(rng, content, count):
    """``count`` contents, each harmed in one of these ways."""
    for trial in range(count):
        yield KINDS[trial % len(KINDS)](rng, content)

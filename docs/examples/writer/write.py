"""Write text in the style of Python's help(), a character at a time."""

import argparse
from pathlib import Path

import numpy as np

import tvm_nnef

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))


def sampled(scores, temperature, random):
    """Draw a character: the one of the largest score at temperature 0, any other one above."""
    if temperature == 0:
        return int(scores.argmax())
    weights = np.exp((scores - scores.max()) / temperature)
    return int(random.choice(len(scores), p=weights / weights.sum()))


def written(model, beginning, count, temperature=0.0, seed=None):
    """Yield the characters after a beginning, one by one."""
    random = np.random.default_rng(seed)
    for character in beginning:
        (scores,) = model(np.array([CHARACTERS.index(character)], np.int32))
    for _ in range(count):
        character = sampled(scores[0].astype(float), temperature, random)
        yield CHARACTERS[character]
        (scores,) = model(np.array([character], np.int32))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("beginning", nargs="?", default="The ")
    parser.add_argument("--temperature", type=float, default=0.5, help="0: always the likeliest")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    model = tvm_nnef.build(Path(__file__).with_name("writer.tgz"), progress=False)
    print(options.beginning, end="")
    for each in written(model, options.beginning, options.count, options.temperature, options.seed):
        print(each, end="", flush=True)
    print()

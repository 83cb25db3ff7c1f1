"""The word count of several tests."""

from dgs.pico import first, flat_map, new, p, reduce

tokenize = flat_map(lambda line: [(word, 1) for word in line.split()], gives=tuple[str, int])
count = p(reduce(lambda a, b: (a[0], a[1] + b[1])), by=first)
word_count = new(tokenize) | new(count)

"""A hundred functions as people write them in numpy: images, signals, finance, statistics, physics and learning.

Each module has functions in the words that repositories, courses and forums use for them, loops and masks included, and
`CASES`: for each function, a maker of its arguments for a size.
"""

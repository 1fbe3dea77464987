"""What can be read from a figure that was drawn."""


def curves(axis):
    """(x, y) of every line with its error bars."""
    return [list(zip(*container[0].get_data(), strict=True)) for container in axis.containers]


def styles(axis):
    """Marker and dashes of every line with its error bars."""
    lines = [container[0] for container in axis.containers]
    return [(line.get_marker(), line.get_linestyle()) for line in lines]


def legend(figure):
    return [text.get_text() for box in figure.legends for text in box.get_texts()]

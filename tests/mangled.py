"""Files that were mangled: bytes that are cut off, replaced, or put in."""

from hypothesis import strategies as st

PIECES = [b"", b"\n", b"{", b"[" * 2000, b"null", b"-1", b'"x"', b"\xff", b"\x00" * 9, b"[1]", b","]


def mangled(content):
    """Returns a strategy: the content with some slices replaced."""

    def replace(changes):
        found = content
        for place, length, piece in changes:
            found = found[:place] + piece + found[place + length :]
        return found

    places, lengths = st.integers(0, len(content)), st.integers(0, 40)
    changes = st.tuples(places, lengths, st.sampled_from(PIECES))
    return st.lists(changes, min_size=1, max_size=3).map(replace)


def reads_or_names_the_file(read, path, content):
    """Whatever is in a file, it is read, or named by a mistake in one line."""
    path.write_bytes(content)
    said = str(path)
    try:
        read(path)
    except ValueError as error:
        said = str(error)
    assert str(path) in said and len(said.splitlines()) == 1, said
    assert path.read_bytes() == content

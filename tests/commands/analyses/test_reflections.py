"""`barl analyze reflections`: how often responses reflect."""

from ..analyzing import analyze, results


def test_reflections_with_keywords_from_a_file(folders, tmp_path):
    keywords = tmp_path / "keywords.txt"
    keywords.write_text("so it\n\n  wait \n")
    out = tmp_path / "out"
    options = (*folders["sampled"], "--keywords", keywords)
    done = analyze("reflections", *options, "--output_dir", out)
    assert done.returncode == 0, done.stderr
    assert "by wrong responses of 3" in " ".join(done.stdout.split())  # as many as there are
    found = results(out / "reflections.json")
    assert found["settings"] == {"num_samples": 3, "keywords": ["so it", "wait"]}
    ours = [row for row in found["rows"] if (row["model"], row["benchmark"]) == ("barl", "gsm8k")]
    frequencies = [(row["difficulty"], row["num_problems"], row["frequency"]) for row in ours]
    assert frequencies == [(0, 1, 1.0), (1, 0, None), (2, 1, 1.0), (3, 1, 1.0)]
    assert (out / "reflections.png").read_bytes().startswith(b"\x89PNG")

"""The warning about versions that barl-trl was not run with, from a real import."""

import subprocess
from importlib.metadata import version

import pytest

from ..preloaded import PRELOADED

INSTALLED = version("transformers")


@pytest.mark.parametrize(
    ("module", "trl", "warning"),
    [
        ("barl_trl.trainer.barl_config", "1.16.0", None),
        (
            "barl_trl.trainer.barl_config",
            "1.17.0",
            f"UserWarning: barl-trl was not tested with trl 1.17.0 and transformers {INSTALLED}: "
            "what it relies on in TRL may have changed. To go back: pip install 'trl<1.17,>=1.16'",
        ),
        ("barl_trl.posterior, barl_trl.hypotheses", "1.17.0", None),
    ],
)
def test_import_warns_outside_the_declared_ranges(tmp_path, module, trl, warning):
    """The metadata of another TRL stand before those of the installed one."""
    stub = tmp_path / f"trl-{trl}.dist-info"
    stub.mkdir()
    (stub / "METADATA").write_text(f"Metadata-Version: 2.1\nName: trl\nVersion: {trl}\n")
    script = tmp_path / "script.py"  # whose folder is the first of the path
    script.write_text(
        "import sys\n"
        "for name in [name for name in sys.modules if name.startswith('barl_trl')]:\n"
        "    del sys.modules[name]\n"
        f"import {module}\n"
    )
    run = subprocess.run([*PRELOADED, str(script)], capture_output=True, text=True, check=True)
    assert (warning or "") in run.stderr
    assert ("was not tested with" in run.stderr) == (warning is not None)

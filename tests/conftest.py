"""Fixtures of the Python tests."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from pysupport import places, toy


@pytest.fixture(scope="session", autouse=True)
def program(request):
    """Tests of the program need it built; without it they fail with one line instead of a hundred."""
    if "checks" not in str(request.config.invocation_params.args) and not places.ONDOL.is_file():
        pytest.exit(f"{places.ONDOL} is not built; run ./test, or: ninja -C build/release ondol", 1)


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory):
    """A toy model of the llama family: 256 tokens of context, never ends by itself."""
    return toy.Model().write(tmp_path_factory.mktemp("toy") / "toy.gguf")


@pytest.fixture(scope="session")
def long_toy_model(tmp_path_factory):
    """The same with a context of four million tokens, for what takes long or needs much memory."""
    return toy.Model(toy.Shape(context=1 << 22)).write(tmp_path_factory.mktemp("toy") / "long.gguf")

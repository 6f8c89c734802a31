import importlib.metadata

import forklift


def test_version_is_the_distributions() -> None:
    assert forklift.__version__ == importlib.metadata.version("forklift-mp")

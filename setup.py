"""Make the README's links absolute for the package index.

Everything else is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# The checkout of this version, which the release has pushed before it uploads.
CHECKOUT = f"{PROJECT['urls']['Source']}/{{}}/v{PROJECT['version']}/"
# A link or a picture whose target is a file here.
TARGET = re.compile(r"(!?)(\[[^\]]*\]\()(?!\w+:|#)")


def make_absolute(link: re.Match[str]) -> str:
    """Lead to a page about the file, or to its bytes if it is a picture."""
    folder = "raw" if link[1] else "blob"
    return link[0] + CHECKOUT.format(folder)


readme = TARGET.sub(make_absolute, (ROOT / "README.md").read_text("utf-8"))
setup(
    long_description=readme.replace("/path/to/clone", PROJECT["name"]),
    long_description_content_type="text/markdown",
)

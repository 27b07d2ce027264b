#!/usr/bin/env python3
"""Sums JUnit files of CTest and pytest.

count_results.py FILE...                one line per file's outcome and the names of what failed, on stderr; the totals
                                        `N passed, N failed[, N skipped]` on stdout. Exit 1 if anything failed.
count_results.py --skips FILE...        why tests were skipped, on stderr, as well
"""

import collections
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    """'passed', 'failed' or ('skipped', why) for one <testcase> element."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed", ""
    skipped = case.find("skipped")
    if skipped is None:
        return "passed", ""
    why = skipped.get("message") or ""
    # CTest calls a test that could not be started "not run", which is a failure here.
    if case.get("status") == "notrun" and not why.startswith(("SKIP_", "Disabled")):
        return "failed", ""
    if why.startswith("SKIP_"):
        output = (case.findtext("system-out") or "").strip().splitlines()
        said = [i for i, line in enumerate(output) if "Skipped" in line]
        why = output[said[0] + 1].strip() if said and said[0] + 1 < len(output) else "skipped"
    return "skipped", why


def main(arguments):
    show_skips = "--skips" in arguments
    totals = collections.Counter()
    reasons = collections.Counter()
    for path in (a for a in arguments if a != "--skips"):
        try:
            cases = list(ElementTree.parse(path).getroot().iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            print(f"  FAILED {path}: {error}", file=sys.stderr)
            totals["failed"] += 1
            continue
        for case in cases:
            result, why = outcome(case)
            totals[result] += 1
            if result == "failed":
                place = case.get("classname") or ""
                name = case.get("name") if place in ("", case.get("name")) else f"{place}: {case.get('name')}"
                print(f"  FAILED {name}", file=sys.stderr)
            elif result == "skipped":
                reasons[why] += 1
    if show_skips:
        for why, count in reasons.most_common():
            print(f"  skipped {count}: {why}", file=sys.stderr)
    line = f"{totals['passed']} passed, {totals['failed']} failed"
    print(line + (f", {totals['skipped']} skipped" if totals["skipped"] else ""))
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

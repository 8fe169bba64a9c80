"""Print the codes of Drishti's insights (extra `peers`) for each log named, a line of JSON each: {log: [code, ...]}.

One process for all logs: Drishti's start takes longer than its work. Used by score.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile


def main() -> None:
    logs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        # Drishti reads its options when it is imported.
        sys.argv = ["drishti", "--csv", "--code", "--export_dir", place, logs[0]]
        from drishti.handlers import handle_darshan  # noqa: PLC0415
        from drishti.includes.config import csv_report  # noqa: PLC0415
        from drishti.includes.parser import args  # noqa: PLC0415

        for log in logs:
            args.log_path = log
            csv_report.clear()
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    handle_darshan.handler()
                    failed = ""
                except (Exception, SystemExit) as error:
                    failed = f"{type(error).__name__}: {error}"
            print(json.dumps({log: list(csv_report), "failed": failed}), flush=True)


if __name__ == "__main__":
    main()

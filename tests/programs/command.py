"""`tahoe run`, as a command that starts faster."""

from __future__ import annotations

import sys

RUN = [sys.executable, "-c", "import sys; from tahoe.programs.launch import run_program; run_program(sys.argv[1:])"]

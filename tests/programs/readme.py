"""readme.py README FOLDER: runs the README's Python and shell blocks as they stand, in their order, twice; /tmp is
FOLDER.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

text, folder = Path(sys.argv[1]).read_text(encoding="utf-8").replace("/tmp/", f"{sys.argv[2]}/"), sys.argv[2]
blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
assert {language for language, _ in blocks} == {"python", "sh"}
environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
for _ in range(2):
    names: dict[str, object] = {}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, "README.md", "exec"), names)
        else:
            subprocess.run(["sh", "-e", "-c", block], check=True, env=environment, cwd=folder)
print("README", len(blocks), "blocks")

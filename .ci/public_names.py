"""Ask pyright for the type of every public name. No type may be Any or unknown."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import alphamepol

UNTYPED = re.compile(r'Type of "alphamepol\.(\w+)" is "(Any|Unknown|type\[Any\]|type\[Unknown\])"')

with tempfile.TemporaryDirectory() as folder:
    asked = Path(folder) / "asked.py"
    names = [*alphamepol.__all__, "__version__"]
    asked.write_text("import alphamepol\n" + "".join(f"reveal_type(alphamepol.{name})\n" for name in names))
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(asked)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
messages = [one["message"] for one in found["generalDiagnostics"]]
untyped = [match[1] for message in messages if (match := UNTYPED.match(message))]
revealed = sum(message.startswith("Type of") for message in messages)
print(f"{revealed} of {len(names)} public names have a type, {len(untyped)} of them Any: {', '.join(untyped)}")
sys.exit(revealed != len(names) or bool(untyped))

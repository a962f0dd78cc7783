"""Makes the .ipynb beside each .py of this folder: ``python notebooks/build.py [FOLDER]`` (needs ``mabpl[notebooks]``).

The .py files are the source; the .ipynb hold their cells, executed. The same sources give the same bytes: cell ids
count up, and what differs from run to run (times, versions, execution counts) is left out.
"""

from __future__ import annotations

import base64
import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def sources() -> list[Path]:
    return sorted(HERE.glob("[0-9]*.py"))


def build(source: Path) -> str:
    """The text of the executed notebook of ``source``; raises nbclient's CellExecutionError where a cell fails."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient

    notebook = jupytext.read(source)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(IPYTHONDIR=scratch, JUPYTER_RUNTIME_DIR=scratch, JUPYTER_PLATFORM_DIRS="1")
        quiet = ["--IPKernelApp.log_level=ERROR"]
        where = {"metadata": {"path": scratch}}
        NotebookClient(notebook, timeout=120, resources=where, extra_arguments=quiet).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                _settle(output)
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"


def _settle(output: dict[str, Any]) -> None:
    if output["output_type"] == "execute_result":
        output["execution_count"] = None
    if picture := output.get("data", {}).get("image/png"):
        output["data"]["image/png"] = base64.b64encode(_packed(base64.b64decode(picture))).decode()


def _packed(png: bytes) -> bytes:
    """The same picture at the highest compression: a quarter of the size, in a file that git keeps for ever."""
    at, head, pixels, tail = 8, b"", b"", b""
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        chunk, at = png[at : at + 12 + size], at + 12 + size
        if chunk[4:8] == b"IDAT":
            pixels += chunk[8:-4]
        elif pixels:
            tail += chunk
        else:
            head += chunk
    data = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    return png[:8] + head + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data)) + tail


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources():
        (folder / source.with_suffix(".ipynb").name).write_text(build(source), encoding="utf-8")
        print(source.with_suffix(".ipynb").name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

"""Run the notebooks in examples/ and store what they show, for the site and for readers.

    python tools/run_notebooks.py          # run all and store their outputs
    python tools/run_notebooks.py --check FILE...   # run, and fail if they show other things

Stored images have few colours. Logs and whatever changes from run to run are not stored. Numbers
may differ a little between machines, so the check ignores digits.
"""

import argparse
import base64
import io
import re
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COLOURS = 32


def run(path: Path) -> Any:
    """Return the notebook with the outputs of a fresh run."""
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            shown = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = joined([small(output) for output in shown])
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    return notebook


def small(output: Any) -> Any:
    """Return an output with its image in few colours, and without what names the figure."""
    if "image/png" in output.get("data", {}):
        image = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"])))
        content = io.BytesIO()
        image.convert("RGB").quantize(COLOURS).save(content, "PNG", optimize=True)
        output.data = {"image/png": base64.b64encode(content.getvalue()).decode()}
        output.metadata = {}
    return output


def joined(outputs: list[Any]) -> list[Any]:
    """Return outputs with consecutive parts of one stream joined."""
    outputs_of: list[Any] = []
    for output in outputs:
        if outputs_of and output.output_type == outputs_of[-1].output_type == "stream":
            outputs_of[-1].text += output.text
        else:
            outputs_of.append(output)
    return outputs_of


def shown(notebook: Any) -> list[str]:
    """Return what all cells show, without digits; of images only that there is one."""
    return [
        re.sub(r"\d", "0", output.get("text", "image"))
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]


def main() -> int:
    """Run the notebooks; return 1 if one shows other things than are stored."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="store nothing, but compare")
    arguments = parser.parse_args()
    differing = 0
    for path in arguments.notebooks or sorted(EXAMPLES.glob("*.ipynb")):
        notebook = run(path)
        if not arguments.check:
            nbformat.write(notebook, path)
        elif shown(notebook) != shown(nbformat.read(path, as_version=4)):
            print(f"{path.name} shows other things than are stored: {shown(notebook)}")
            differing += 1
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main())

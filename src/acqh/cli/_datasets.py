"""``acqh datasets``: what there is, what is missing, where to put it."""

from dataclasses import asdict

from acqh.cli._options import DataDirOption
from acqh.cli._output import JsonOption, print_json, print_table


def datasets(
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the named data sets, and say which can be loaded here."""
    from acqh.data import list_datasets

    known = list_datasets(data_dir)
    if as_json:
        print_json([{**asdict(info), "found": info.found} for info in known])
        return
    rows = [
        [
            info.name,
            "yes" if info.found else "no",
            f"{info.n_items:,}",
            ", ".join(f"{view}: {what}" for view, what in info.views.items()),
            str(info.n_labels),
            info.differs or "-",
        ]
        for info in known
    ]
    columns = ["name", "here", "items", "views", "labels", "differs from the paper's"]
    print_table("Data sets", columns, rows)
    for info in known:
        for missing in info.missing:
            where = info.looked_in or "no folder: set ACQH_DATA or give --data-dir"
            print(f"{info.name}: missing {missing}; looked in {where}")

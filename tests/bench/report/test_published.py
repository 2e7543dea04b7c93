"""Published results. Every expected value was read off the paper by eye."""

import numpy as np
import pytest

from benchmarks.paper.published import PAPER, paper_result

BITS = (8, 16, 32, 64, 128)


def table(number, dataset, direction=None):
    return next(
        entry
        for entry in PAPER["tables"]
        if (entry["table"], entry["dataset"], entry["direction"]) == (number, dataset, direction)
    )


def test_five_tables_have_seven_methods_and_five_lengths():
    paper = PAPER
    assert len(paper["tables"]) == 12
    assert tuple(paper["n_components"]) == BITS
    for entry in paper["tables"]:
        assert list(entry["rows"]) == ["GSPH", "DCH", "DCMH", "QCH", "ADCH", "FDCH", "ACQH"]
        for row in entry["rows"].values():
            assert len(row) == len(BITS)


@pytest.mark.parametrize(
    ("number", "dataset", "direction", "method", "figures"),
    [
        (1, "wiki", "image->text", "ACQH", [0.3126, 0.3230, 0.3239, 0.3181, 0.3228]),
        (1, "wiki", "text->image", "GSPH", [0.4445, 0.5017, 0.5166, 0.5275, 0.5242]),
        (1, "wiki", "text->image", "ADCH", [0.1179] * 5),
        (2, "mirflickr25k", "image->text", "FDCH", [0.6411, 0.6800, 0.6739, 0.6770, 0.6816]),
        (2, "mirflickr25k", "text->image", "DCMH", [0.5192, 0.5664, 0.5647, 0.5649, 0.5695]),
        (3, "nuswide10", "image->text", "ADCH", [0.5686, 0.5461, 0.5596, 0.3154, 0.4937]),
        (3, "nuswide10", "text->image", "QCH", [0.4304, 0.4425, 0.4169, 0.3942, 0.3726]),
        (4, "mirflickr25k", None, "QCH", [2092.9111, 2151.7798, 2254.7192, 2159.9231, 3431.3842]),
        (4, "nuswide10", None, "FDCH", [15.5289, 3.7857, 2.5995, 3.6588, 5.688]),
        (5, "mirflickr25k", "image->text", "DCH", [0.1937, 0.1932, 0.3084, 0.7376, 1.4192]),
        (5, "nuswide10", "text->image", "FDCH", [5.9666, 6.9965, 9.5546, 21.7061, 28.8588]),
        (5, "nuswide10", "text->image", "ACQH", [3.5422, 3.5275, 3.4935, 3.4832, 3.5079]),
    ],
)
def test_rows_are_as_printed(number, dataset, direction, method, figures):
    assert table(number, dataset, direction)["rows"][method] == figures


@pytest.mark.parametrize(
    ("number", "dataset", "direction", "total"),
    [
        (1, "wiki", "image->text", 7.1268),
        (1, "wiki", "text->image", 11.6583),
        (2, "mirflickr25k", "image->text", 23.6361),
        (2, "mirflickr25k", "text->image", 24.1292),
        (3, "nuswide10", "image->text", 16.9897),
        (3, "nuswide10", "text->image", 17.1666),
        (4, "mirflickr25k", None, 19774.2456),
        (4, "nuswide10", None, 16324.8872),
        (5, "mirflickr25k", "image->text", 17.7838),
        (5, "mirflickr25k", "text->image", 17.4690),
        (5, "nuswide10", "image->text", 413.2173),
        (5, "nuswide10", "text->image", 423.0625),
    ],
)
def test_results_of_a_table_have_the_printed_sum(number, dataset, direction, total):
    entry = table(number, dataset, direction)
    assert sum(sum(row) for row in entry["rows"].values()) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize(
    ("number", "dataset", "direction", "per_cent"),
    [
        (1, "wiki", "image->text", 4.02),
        (2, "mirflickr25k", "image->text", 12.40),
        (3, "nuswide10", "image->text", 25.05),
        (1, "wiki", "text->image", 20.05),
        (2, "mirflickr25k", "text->image", 20.29),
        (3, "nuswide10", "text->image", 40.49),
    ],
)
def test_the_mean_lead_over_gsph_is_the_one_the_papers_text_gives(
    number, dataset, direction, per_cent
):
    rows = table(number, dataset, direction)["rows"]
    lead = np.mean(rows["ACQH"]) - np.mean(rows["GSPH"])
    assert 100 * lead == pytest.approx(per_cent, abs=0.0051)


def test_published_results_are_found_by_registered_names():
    assert paper_result("map", "wiki", "dcmh-discrete", 64, "image->text") == 0.1266
    assert paper_result("map", "wiki", "acqh", 8, "text->image") == 0.6898
    assert paper_result("fit_seconds", "nuswide10", "adch", 16, "text->image") == 22.5178
    assert paper_result("fit_seconds", "nuswide10", "adch", 16, "image->text") == 22.5178
    assert paper_result("query_seconds", "mirflickr25k", "gsph", 128, "image->text") == 1.2874


def test_results_missing_from_print_are_none():
    assert paper_result("map", "wiki", "label-ridge", 32, "image->text") is None
    assert paper_result("map", "emoji", "acqh", 32, "image->text") is None
    assert paper_result("map", "wiki", "acqh", 24, "image->text") is None
    assert paper_result("map", "wiki", "acqh", 32, "image->sound") is None
    assert paper_result("fit_seconds", "wiki", "acqh", 32, "image->text") is None

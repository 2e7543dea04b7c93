"""Every operation keeps to its OpenAPI description, whatever clients send."""

import subprocess
import sys

import pytest

pytest.importorskip("schemathesis")

import jsonschema_rs

# No schema defines which bytes are a picture, so the server may reject what the schema allows.
EXCLUDED = "positive_data_acceptance"


def schemathesis(client, folder, *arguments):
    """Run schemathesis against a service, with all its checks but one; return what it printed."""
    address = str(client.base_url.join("/openapi.json"))
    limits = ["--max-examples=5", "--seed=1", f"--exclude-checks={EXCLUDED}", "--no-color"]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", address, *limits, *arguments],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_read_only_server_keeps_to_its_description(client, tmp_path):
    printed = schemathesis(client, tmp_path)
    assert "Tested: 13" in printed
    assert "POST /items" not in printed


@pytest.mark.slow
def test_a_guarded_server_that_can_be_written_to_keeps_to_its_description(
    own_copy, start, token_files, tmp_path
):
    with start(own_copy, **token_files) as client:
        header = "Authorization: Bearer write-0123456789abcdef"
        printed = schemathesis(
            client, tmp_path, "--header", header, "--include-tag=write", "--phases=coverage,fuzzing"
        )
    assert "Tested: 4" in printed


def test_the_description_names_the_limits_and_every_problem(built, start, token_files):
    with start(built, **token_files) as client:
        document = client.get("/openapi.json").json()
    query = document["components"]["schemas"]["Query"]["properties"]
    assert query["k"]["maximum"] == 1_000
    assert query["text"]["anyOf"][0]["maxLength"] == 10_000
    assert "security" in document["paths"]["/search"]["post"]
    for path in document["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"]


QUERIES = [
    {}, {"text": None}, {"text": None, "image": None, "item": None}, {"text": None, "k": 3},
    {"text": ""}, {"item": ""}, {"k": 5}, {"weights": {}}, {"text": "a", "x": 1},
    {"text": "a", "where": {}}, {"text": "a", "where": None}, {"text": "a", "where": {"x": []}},
    {"text": "a", "where": {'"': 1}}, {"text": "a", "where": {"a\nb\t": 1}}, {"text": "a", "k": 0},
    {"text": "a", "where": {"label": "x" * 1000}}, {"text": "a", "where": {"label": "x" * 1001}},
    {"text": "a", "item": None}, {"text": None, "item": "plain"}, {"text": " "}, {"text": "a"},
    {"text": "a", "weights": None}, {"text": "a", "weights": {"item": 2}}, {"text": "a", "k": None},
    {"item": []}, {"item": ["plain"]}, {"unlike": ["plain"]}, {"item": "plain", "unlike": []},
    {"vector": None}, {"vector": {}}, {"vector": {"image": []}}, {"text": "a", "vector": None},
]  # fmt: skip
ITEMS = [
    {}, {"items": None}, {"items": []}, {"items": [{}]}, {"items": [{"text": ""}]},
    {"items": [{"text": " \n"}]}, {"items": [{"text": None}]}, {"items": [{"image": None}]},
    {"items": [{"text": "cat"}, {}]}, {"items": [{"labels": ["x"]}]}, {"items": [{"text": "cat"}]},
    {"items": [{"text": "cat", "labels": [""]}]}, {"items": [{"text": "cat", "id": ""}]},
    {"items": [{"text": "cat", "fields": {"label": 1}}]},
    {"items": [{"text": "cat", "fields": {"x": None, "y": 0.5}, "id": None, "image": None}]},
    {"items": [{"text": "cat"}], "replace": None}, {"items": [{"text": "cat"}], "replace": True},
]  # fmt: skip


def test_the_description_allows_exactly_what_the_server_allows(own_copy, start, token_files):
    write = {"Authorization": "Bearer write-0123456789abcdef"}
    with start(own_copy, **token_files) as client:
        document = client.get("/openapi.json").json()
        for name, path, bodies in (("Query", "/search", QUERIES), ("NewItems", "/items", ITEMS)):
            schema = {**document, "$ref": f"#/components/schemas/{name}"}
            allows = jsonschema_rs.validator_for(schema).is_valid
            for body in bodies:
                answer = client.post(path, json=body, headers=write)
                assert answer.status_code in (200, 201, 422)
                # Which columns and labels items have is beyond a description.
                refused = answer.status_code == 422 and "no item has" not in answer.text
                assert refused != allows(body), (body, answer.text)


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_there_are_no_pages_with_scripts_from_elsewhere(client, path):
    assert client.get(path).status_code == 404

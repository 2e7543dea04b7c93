"""The OpenAPI document: what FastAPI finds out, and what it cannot know of our bodies."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from acqh.serve._bodies import FORM, IN_JSON, JSON
from acqh.serve._problems import Problem

_REFERENCE = "#/components/schemas/{model}"


def _bodies(json_schema: str, form_schema: str | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": {"$ref": _REFERENCE.format(model=json_schema)}}}
    if form_schema is not None:
        content[FORM] = {
            "schema": {"$ref": _REFERENCE.format(model=form_schema)},
            "encoding": {name: {"contentType": JSON} for name in sorted(IN_JSON)},
        }
    return {"requestBody": {"required": True, "content": content}}


# The operation's bodies, by the names under which `document` puts their schemas.
REQUEST_BODIES = {
    "search": _bodies("Query", "QueryForm"),
    "browse": _bodies("Browse"),
    "add": _bodies("NewItems", "NewItemForm"),
}


def document(
    app: FastAPI,
    bodies: dict[str, type[BaseModel]],
    forms: dict[str, type[BaseModel]],
    root_path: str = "",
) -> dict[str, Any]:
    """Return the OpenAPI document of an application.

    `bodies`: bodies in JSON, by the names in `REQUEST_BODIES`. `forms`: bodies that are forms,
    whose fields that are not texts hold JSON, and whose image is a file. `root_path`: what stands
    before every path.
    """
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            version=app.version,
            routes=app.routes,
            servers=[{"url": root_path}] if root_path else None,
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        schemas |= _definitions("Problem", Problem)
        for name, model in bodies.items():
            schemas |= _definitions(name, model)
        for name, model in forms.items():
            schemas[name] = _form(_definitions(name, model)[name])
        # Ours are problems; FastAPI's own answer to a wrong body is never given.
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path in found["paths"].values():
            for operation in path.values():
                _drop_unused_422(operation)
        app.openapi_schema = found
    return app.openapi_schema


def _definitions(name: str, model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_REFERENCE)
    return {**schema.pop("$defs", {}), name: schema}


def _form(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a form with the fields of a JSON object.

    There is no null in a form: what is not filled in is left out, or is an empty text.
    """
    properties = {name: _form_field(name, field) for name, field in schema["properties"].items()}
    ways = [{"required": way["required"]} for way in schema["anyOf"]]
    return {
        "type": "object",
        "title": schema["title"],
        "properties": properties,
        "anyOf": ways,
        "additionalProperties": False,
    }


def _form_field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    field = {**schema, **kinds[0]}
    for unused in ("anyOf", "default", "contentEncoding", "propertyNames"):
        field.pop(unused, None)
    if name == "image":
        return field | {"format": "binary"}
    if field.get("type") == "array":
        # A form has no arrays but of fields with one name; this is one field that holds JSON.
        return {"type": "string", "title": field["title"], "contentMediaType": JSON}
    if field.get("type") == "string":
        field.pop("minLength", None)
    return field


def _drop_unused_422(operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    if JSON in answers.get("422", {}).get("content", {}):
        del answers["422"]

#!/usr/bin/env python3
"""Writes src/quern/types.py and src/quern/_calls.py from the server's OpenAPI document.

    python3 generate.py            write them
    python3 generate.py --check    say whether they are current, and end with 1 if they are not

The standard library is all it needs. HAND below has the operations that are written by hand (the worker, inserts, waits, outputs, streams).
"""

from __future__ import annotations

import json
import keyword
import pathlib
import re
import sys
import textwrap
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "../../web/testdata/openapi.json"
TYPES, CALLS = HERE / "src/quern/types.py", HERE / "src/quern/_calls.py"

# Operations that are written by hand, or are for browsers.
HAND = {
    "insert", "list-outputs", "attach-consumer", "follow-ends", "events", "dashboard", "dashboard-asset", "docs", "open-session", "close-session",
}  # fmt: skip

# Operations that may be made twice beside GET, and PUT without a condition: they ask, or name a token, or say how something is to be.
SAFE = {
    "preview", "explain", "compare", "validate-strategy", "why", "preview-schedule", "reserve", "complete", "fail", "extend", "release", "exchange",
    "cancel-chunk", "cancel-submission", "change-submission", "drain-consumer", "quiet-consumer", "resume-consumer", "cancel-bulk-operation", "lift-rule", "revoke-token",
    "dry-run-plugin", "wait-submissions",
}  # fmt: skip

NOTE = '"""{}\n\nWritten by generate.py from the server\'s OpenAPI document; changes go there."""\n\n'


def main() -> int:
    document = json.loads(SOURCE.read_text())
    wanted = {TYPES: types(document), CALLS: calls(document)}
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text() != text]
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{file.name} is not what generate.py makes of the OpenAPI document: run python3 sdk/python/generate.py")
        return 1 if stale else 0
    for file in stale:
        file.write_text(wanted[file])
        print("wrote", file.relative_to(HERE))
    return 0


def types(document: dict[str, Any]) -> str:
    """The module of types: a TypedDict per schema."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    out = [NOTE.format("What the server's answers and requests look like: each is a dict."), "from __future__ import annotations\n\n"]
    out.append("from typing import Any, Literal, Optional, TypedDict, Union\n\n")
    out.append("__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(schemas)) + "]\n\n\n")
    unions = {name: schema for name, schema in schemas.items() if "oneOf" in schema}
    for name, schema in unions.items():
        kinds = ", ".join(quoted(python(one)) if "$ref" in one else python(one) for one in schema["oneOf"])
        out.append(comment(schema.get("description", ""), "") + f"{name} = Union[{kinds}]\n\n")
    out.append("\n")
    for name, schema in schemas.items():
        if name in unions:
            continue
        if "properties" not in schema:
            of = schema.get("additionalProperties")
            value = python(of) if isinstance(of, dict) else "Any"
            out.append(comment(schema.get("description", ""), "") + f"{name} = dict[str, {value}]\n\n\n")
            continue
        out.append(typed_dict(name, schema))
    return "".join(out).rstrip("\n") + "\n"


def typed_dict(name: str, schema: dict[str, Any]) -> str:
    """A class for an object. Required fields stand in a base class, as NotRequired is younger than Python 3.10; names that are keywords
    in a base that is made by a call."""
    required = set(schema.get("required", []))
    fields = schema["properties"]
    odd = {field for field in fields if keyword.iskeyword(field) or not field.isidentifier()}
    must = [field for field in fields if field in required and field not in odd]
    may = [field for field in fields if field not in required and field not in odd]
    bases = []
    out = ""
    if odd:
        entries = ", ".join(f'"{field}": {quoted(python(fields[field]))}' for field in fields if field in odd)
        out += f'_{name}Odd = TypedDict("_{name}Odd", {{{entries}}}, total=False)\n\n\n'
        bases.append(f"_{name}Odd")
    if must and may:
        out += f"class _{name}Required(TypedDict):\n" + members(fields, must) + "\n\n"
        bases.append(f"_{name}Required")
    total = ", total=False" if may or not must else ""
    doc = schema.get("description", "") or f"{name}: see the server's OpenAPI document."
    out += f"class {name}({', '.join(bases) or 'TypedDict'}{total}):\n" + docstring(doc, "    ")
    body = members(fields, may if must and may or not must else must)
    return out + (body if body else "") + "\n\n"


def members(fields: dict[str, Any], names: list[str]) -> str:
    return "".join(comment(fields[name].get("description", ""), "    ") + f"    {name}: {python(fields[name])}\n" for name in names)


def quoted(text: str) -> str:
    return f'"{text}"'


def python(schema: dict[str, Any]) -> str:
    """The Python type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "oneOf" in schema:
        kinds = [python(one) for one in schema["oneOf"] if one.get("type") != "null"]
        text = f"Union[{', '.join(kinds)}]" if len(kinds) > 1 else kinds[0]
        return f"Optional[{text}]" if len(kinds) < len(schema["oneOf"]) else text
    if "enum" in schema:
        text = "Literal[" + ", ".join(json.dumps(value) for value in schema["enum"] if value is not None) + "]"
        return f"Optional[{text}]" if None in schema["enum"] else text
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = [one for one in kind if one != "null"]
        return f"Optional[{python({**schema, 'type': rest[0]})}]"
    if kind == "array":
        return f"list[{python(schema['items'])}]" if isinstance(schema.get("items"), dict) else "list[Any]"
    if kind == "object":
        of = schema.get("additionalProperties")
        return f"dict[str, {python(of)}]" if isinstance(of, dict) else "dict[str, Any]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(str(kind), "Any")


def comment(text: str, indent: str) -> str:
    return "".join(f"{indent}#: {line}\n" for line in textwrap.wrap(text, 130)) if text else ""


def docstring(text: str, indent: str, more: str = "") -> str:
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    if not text.endswith((".", "!", "?")):
        text += "."
    lines = textwrap.wrap(text, 130 - len(indent))
    if len(lines) == 1:
        return f'{indent}"""{lines[0]}"""\n'
    return f'{indent}"""' + f"\n{indent}".join(lines) + f'\n{indent}"""\n'


def calls(document: dict[str, Any]) -> str:
    """The module of calls: a method per operation, for the blocking and for the awaiting client."""
    operations = []
    for pattern, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            if operation.get("operationId") not in HAND:
                operations.append((pattern, verb.upper(), operation))
    operations.sort(key=lambda one: str(one[2]["operationId"]))
    out = [NOTE.format("Every call of the server that is not written by hand.")]
    out.append("from __future__ import annotations\n\n")
    out.append("from collections.abc import AsyncIterator, Iterator, Mapping, Sequence\nfrom typing import Any, Optional, Union\n\n")
    out.append("from . import types\nfrom ._core import meta_text, path, query\nfrom ._http import Request\nfrom ._values import write_json\n\n\n")
    out.append(REQUEST)
    for sync in (True, False):
        out.append(HEAD[sync])
        for pattern, verb, operation in operations:
            out.append(method(pattern, verb, operation, sync))
        out.append("\n")
    return "".join(out).rstrip("\n") + "\n"


REQUEST = '''def _request(
    what: str,
    method: str,
    target: str,
    body: Any = None,
    headers: Optional[Mapping[str, Optional[str]]] = None,
    safe: bool = False,
    media: str = "application/json",
) -> Request:
    given = {name: value for name, value in (headers or {}).items() if value is not None}
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else write_json(body).encode()
        given["Content-Type"] = media
    asked = body.get("reserve", body) if isinstance(body, Mapping) else {}  # the server may be asked to wait
    return Request(what, method, target, data, given, asked.get("wait_ms", 0) / 1000, safe)


'''

HEAD = {
    True: '''class Calls:
    """The calls of :class:`quern.Client`."""

    def _fetch(self, request: Request) -> Any:
        raise NotImplementedError

    def _bytes(self, request: Request) -> bytes:
        raise NotImplementedError

    def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> Iterator[Any]:
        raise NotImplementedError
''',
    False: '''
class AsyncCalls:
    """The calls of :class:`quern.AsyncClient`."""

    async def _fetch(self, request: Request) -> Any:
        raise NotImplementedError

    async def _bytes(self, request: Request) -> bytes:
        raise NotImplementedError

    def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> AsyncIterator[Any]:
        raise NotImplementedError
''',
}

HEADERS = {"If-Match": "if_match", "If-None-Match": "if_none_match", "Idempotency-Key": "key"}


def method(pattern: str, verb: str, operation: dict[str, Any], sync: bool) -> str:
    """One method."""
    identity = str(operation["operationId"])
    name = identity.replace("-", "_")
    parameters = operation.get("parameters", [])
    inside = [p["name"] for p in parameters if p["in"] == "path"]
    inside.sort(key=lambda one: pattern.index("{" + one + "}"))
    asked = [p for p in parameters if p["in"] == "query"]
    heads = [p["name"] for p in parameters if p["in"] == "header" and p["name"] in HEADERS]
    content = operation.get("requestBody", {}).get("content", {})
    result, media = answer(operation)
    paged = result.startswith("Page") and verb == "GET"
    arguments = [f"{one}: {'Union[str, int]' if one in ('value', 'index', 'id', 'submission') else 'str'}" for one in inside]
    if "application/json" in content:
        arguments.append(f"body: {annotation(python(content['application/json']['schema']))}")
    elif "application/wasm" in content:
        arguments += ["module: bytes"]
    options = [f"{argument(p['name'])}: {optional(p)} = None" for p in asked if not (paged and p["name"] == "cursor")]
    options += [f"{HEADERS[one]}: Optional[str] = None" for one in heads]
    if "application/x-tar" in content:
        options.append("body: Optional[bytes] = None")
    signature = ", ".join(["self"] + arguments + (["*"] + options if options else []))
    if paged:
        item = annotation(result[len("Page"):])
        returns = f"{'Iterator' if sync else 'AsyncIterator'}[{item}]"
    else:
        returns = {"": "None", "bytes": "bytes", "text": "str"}.get(result) or annotation(result)
    prefix = "def" if sync or paged else "async def"
    out = [f"\n    {prefix} {name}({signature}) -> {returns}:\n", docstring(describe(operation), "        ")]
    placed = ", ".join([json.dumps(re.sub(r"{[^}]*}", "{}", pattern))] + [f"meta_text({one})" if one == "value" else one for one in inside])
    target = f"path({placed})"
    values = "{" + ", ".join(f'"{p["name"]}": {argument(p["name"])}' for p in asked if not (paged and p["name"] == "cursor")) + "}"
    what = identity.replace("-", " ")
    if paged:
        return "".join(out) + f"        return self._pages({json.dumps(what)}, {target}, {values})\n"
    if values != "{}":
        target = f"query({target}, {values})"
    given = [json.dumps(what), json.dumps(verb), target]
    if "application/json" in content:
        given.append("body")
    elif "application/wasm" in content:
        given.append("module")
    elif "application/x-tar" in content:
        given.append("body")
    if heads:
        given.append("headers={" + ", ".join(f'"{one}": {HEADERS[one]}' for one in heads) + "}")
    conditions = [HEADERS[one] for one in heads if one.startswith("If-")]
    if verb == "GET":
        given.append("safe=True")
    elif "Idempotency-Key" in heads:
        given.append("safe=key is not None")
    elif verb == "PUT" or identity in SAFE:  # with a condition, a second try would meet the change of the first
        given.append("safe=" + (" and ".join(f"{one} is None" for one in conditions) or "True"))
    if "application/wasm" in content:
        given.append('media="application/wasm"')
    elif "application/x-tar" in content:
        given.append('media="application/x-tar"')
    wait = "" if sync else "await "
    call = f"_request({', '.join(given)})"
    if result == "":
        return "".join(out) + f"        {wait}self._bytes({call})\n"
    if result == "bytes":
        return "".join(out) + f"        return {wait}self._bytes({call})\n"
    if result == "text":
        return "".join(out) + f"        return ({wait}self._bytes({call})).decode()\n"
    return "".join(out) + f"        found: {returns} = {wait}self._fetch({call})\n        return found\n"


def annotation(text: str) -> str:
    return re.sub(r"\b([A-Z]\w*)\b", lambda m: m[1] if m[1] in ("Any", "Optional", "Union", "Literal") else "types." + m[1], text)


def argument(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def optional(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    kind = schema.get("type")
    if kind == "array":
        return "Optional[Sequence[str]]"
    if kind == "object":
        return "Optional[Mapping[str, Union[str, int]]]"
    if parameter["name"] == "limit":
        return "Optional[int]"
    return {"integer": "Optional[int]", "boolean": "Optional[bool]"}.get(str(kind), "Optional[str]")


def answer(operation: dict[str, Any]) -> tuple[str, str]:
    """The type of an answer: a schema's name, "bytes", "text", or "" for none."""
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            continue
        for media, content in response.get("content", {}).items():
            if media == "application/json":
                return python(content["schema"]), media
            return ("text" if media.startswith("text/") or media.endswith("json") else "bytes"), media
    return "", ""


def describe(operation: dict[str, Any]) -> str:
    summary, more = operation.get("summary", ""), operation.get("description", "")
    return ". ".join(filter(None, [summary.rstrip("."), more])) or str(operation["operationId"])


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Takes what the tests need out of the published schemas of Kubernetes.

The package `kubernetes-validate` of PyPI carries them (made from the API's own OpenAPI description, Apache-2.0):

    pip download --no-deps kubernetes-validate && unzip kubernetes_validate-*.whl -d unpacked
    python3 tests/tests/deploy/schemas/trim.py unpacked/kubernetes_validate/kubernetes-json-schema 1.29 1.37

Of the strict schemas (a key that does not exist is refused) of each version it keeps the kinds below with all that they
refer to, without descriptions, as tests/tests/deploy/schemas/VERSION.json.
"""

import json
import pathlib
import sys

KINDS = {
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "Service": "io.k8s.api.core.v1.Service",
    "StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
}


def trimmed(value, is_schema=True):
    """Drops descriptions and what only the API server reads; a property may be called as these are."""
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        if is_schema and (key in ("description", "default") or key.startswith("x-kubernetes-")):
            continue
        if is_schema and key == "$ref":
            kept[key] = "#/definitions/" + item.rsplit("/", 1)[1]
        else:
            kept[key] = trimmed(item, is_schema=not (is_schema and key == "properties"))
    return kept


def references(value):
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                yield item.rsplit("/", 1)[1]
            else:
                yield from references(item)


def main():
    source = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).parent
    for version in sys.argv[2:]:
        everything = json.loads((source / f"v{version}.0-local-strict" / "_definitions.json").read_text())["$defs"]
        wanted, kept = list(KINDS.values()), {}
        while wanted:
            name = wanted.pop()
            if name not in kept:
                kept[name] = trimmed(everything[name])
                wanted.extend(references(kept[name]))
        schema = {"kinds": KINDS, "definitions": {name: kept[name] for name in sorted(kept)}}
        # A definition a line: small, and changes between versions can be seen.
        lines = [f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}" for name, value in schema["definitions"].items()]
        text = '{"kinds":%s,"definitions":{\n%s\n}}\n' % (json.dumps(KINDS, separators=(",", ":")), ",\n".join(lines))
        (here / f"{version}.json").write_text(text)


main()

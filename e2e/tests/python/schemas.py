"""Validates what commands print against the schemas of `obey schema`, with an independent validator.

Usage: schemas.py FOLDER, which holds NAME.schema.json and NAME.json, NAME.toml or, for one document per line, NAME.jsonl.
"""

import json
import pathlib
import sys

from jsonschema import Draft202012Validator

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

folder = pathlib.Path(sys.argv[1])
failed = False
for file in sorted(folder.glob("*.schema.json")):
    name = file.name.removesuffix(".schema.json")
    schema = json.loads(file.read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    whole, lines = folder / f"{name}.json", folder / f"{name}.jsonl"
    documents = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    documents += [json.loads(whole.read_text())] if whole.exists() else []
    table = folder / f"{name}.toml"
    if table.exists():
        documents.append(tomllib.loads(table.read_text()))
        if validator.is_valid(documents[-1] | {"no_such_key": 1}):
            print(f"FAILED {name}: an unknown key is taken")
            failed = True
    if not documents:
        print(f"FAILED {name}: nothing was printed to check")
        failed = True
    for document in documents:
        for error in validator.iter_errors(document):
            print(f"FAILED {name}: {error.json_path}: {error.message}")
            failed = True
        # A schema that takes anything says nothing.
        extra = set(document) - set(schema.get("properties", {})) if isinstance(document, dict) else set()
        if extra and name not in ("event", "config"):
            print(f"FAILED {name}: the schema does not know {sorted(extra)}")
            failed = True
    print(f"ok     {name}: {len(documents)} documents")
sys.exit(1 if failed else 0)

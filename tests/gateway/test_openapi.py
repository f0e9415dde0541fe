"""The description of the routes is true: what is described is there, and schemathesis finds no answer beyond it."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mew_lab.gateway.openapi import DESCRIPTION
from mew_lab.protocol.kinds import KINDS

from .conftest import CHAT, House, Open

SEED = 20260109
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,unsupported_method,allow_header_conformance,ignored_auth"
)


def resolved(schema: Any) -> Any:
    """The schema with its references replaced, so that one validator can read it."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return resolved(DESCRIPTION["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        return {key: resolved(value) for key, value in schema.items()}
    return [resolved(one) for one in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(
    ("method", "path", "described", "status"),
    [
        ("GET", "/health", "/health", 200),
        ("GET", "/openapi.json", "/openapi.json", 200),
        ("GET", "/participants", "/participants", 200),
        ("POST", "/participants/anna/messages", "/participants/{id}/messages", 200),
        ("POST", "/participants/bert/messages", "/participants/{id}/messages", 403),
        ("GET", "/participants/anna/messages", "/participants/{id}/messages", 200),
        ("GET", "/participants/anna/messages?since=x", "/participants/{id}/messages", 400),
    ],
)
async def test_each_answer_is_of_the_shape_that_is_described(
    house: House, method: str, path: str, described: str, status: int
) -> None:
    await house.post("anna", CHAT)
    more = {"json": CHAT} if method == "POST" else {}
    response = await house.http(method, path, headers=house.bearer("anna"), **more)
    assert response.status_code == status
    answers = DESCRIPTION["paths"][described][method.lower()]["responses"]
    schema = resolved(answers[str(status)]["content"]["application/json"]["schema"])
    jsonschema.validate(response.json(), schema)


def described_for_tests() -> dict[str, Any]:
    """The description with names and kinds that the house knows, so that most of what is made up gets in."""
    made: dict[str, Any] = json.loads(json.dumps(DESCRIPTION))
    (named,) = [
        one for one in made["paths"]["/participants/{id}/messages"]["parameters"] if one["in"] == "path"
    ]
    named["schema"] = {"enum": ["anna", "anna", "anna", "bert", "..", "system:gateway"]}
    (wait,) = [
        one
        for one in made["paths"]["/participants/{id}/messages"]["get"]["parameters"]
        if one["name"] == "wait"
    ]
    wait["schema"]["maximum"] = 0.01  # what is made up shall not wait for long
    members = made["components"]["schemas"]["Partial"]["properties"]
    members["kind"] = {"anyOf": [{"enum": sorted(KINDS)}, members["kind"]]}
    members["from"] = {"enum": ["anna", "bert"]}
    return made


async def schemathesis(house: House, folder: Path, *, examples: int, seed: int) -> int:
    """Lets it make up requests, at most so many an operation; fails when it finds anything; says how many."""
    place = folder / "openapi.json"
    place.write_text(json.dumps(described_for_tests()))
    words = ["run", str(place), "--url", f"http://{house.at}", "--checks", CHECKS, "--seed", str(seed)]
    words += ["--max-examples", str(examples), "--warnings", "off"]
    words += ["-H", f"Authorization: {house.bearer('anna')['Authorization']}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", *words,
        cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        told = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, told
    made = re.search(r"(\d+) generated", told)
    assert made is not None, told
    return int(made[1])


async def a_house_open_to_everything(open_house: Open) -> House:
    house = await open_house(limits={"burst": 10**9, "messages_per_second": 1e9})
    house.gateway.enrol("demo", "anna", [{"kind": "*"}])
    await house.join("bert")
    return house


@pytest.mark.timeout(120)
@pytest.mark.threat(8)
@pytest.mark.slow
async def test_schemathesis_finds_no_fault_in_less_than_a_minute(open_house: Open, tmp_path: Path) -> None:
    house = await a_house_open_to_everything(open_house)
    assert await schemathesis(house, tmp_path, examples=25, seed=SEED) >= 125
    assert any(one.verdict == "accepted" and one.event == "received" for one in house.records)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_schemathesis_finds_no_fault_in_a_long_run(open_house: Open, tmp_path: Path) -> None:
    house = await a_house_open_to_everything(open_house)
    seed = secrets.randbits(32)
    print(f"\nseed {seed}")
    made = await schemathesis(house, tmp_path, examples=500, seed=seed)
    print(f"{made} requests made up")
    assert made >= 2000

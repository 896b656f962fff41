from __future__ import annotations

import tomllib
from pathlib import Path

from codesign_opt.studies.reference import study_reference
from codesign_opt.studies.schema import StudyFile
from codesign_opt.studies.specification import study_from_dict

PAGE = Path(__file__).parents[2] / "docs" / "study-file.md"


def test_the_page_holds_the_reference_of_today() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = page.partition("<!-- reference:begin -->\n")[2].partition("<!-- reference:end -->")[0]
    assert written.strip() == study_reference().strip()


def test_every_key_is_explained() -> None:
    reference = study_reference()
    schema = StudyFile.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    keys = [key for model in models for key in model["properties"]]
    assert len(keys) > 80
    for key in keys:
        row = next(line for line in reference.splitlines() if line.startswith(f"| `{key}` | "))
        _, kind, _, meaning = (cell.strip() for cell in row.strip("|").split(" | ")[:4])
        assert kind
        assert meaning


def test_tables_are_headed_as_toml_writes_them() -> None:
    headings = [line for line in study_reference().splitlines() if line.startswith("### ")]
    for heading in ("[workload]", "[[system.network_tiers]]", "[system.network_tiers.collectives]", "[strategies]"):
        assert f"### `{heading}`" in headings


def test_the_example_on_the_page_is_a_study() -> None:
    example = PAGE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    study = study_from_dict(tomllib.loads(example), where="example")
    assert study.system.network_tiers[1].bandwidth == 100e9
    assert [parameter.path for parameter in study.free] == ["memory_tier1.capacity", "memory_tier2.capacity"]

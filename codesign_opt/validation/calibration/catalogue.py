"""Calibrated systems of the catalogue: `python -m codesign_opt.validation.calibration.catalogue` makes them again."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from codesign_opt.catalog import resolve_system, system_notes
from codesign_opt.validation.calibration.generations import generation_of_system
from codesign_opt.validation.calibration.shipped import shipped_calibration
from codesign_opt.validation.calibration.system_files import calibrated_file

CALIBRATED = (
    "v100-32g-sxm", "a100-40g-sxm", "a100-80g-sxm", "h100-sxm", "h200", "b200", "b300", "gb200-nvl72", "gb300-nvl72",
    "tpu-v5e", "tpu-v5p",
)  # fmt: skip
"""Systems that are there once more, calibrated: of generations that published runs were measured on."""


def calibrated_systems() -> dict[str, str]:
    """The text of each file by its name in the catalogue."""
    files = {}
    for base in CALIBRATED:
        generation = generation_of_system(base)
        assert generation is not None
        name = f"{base}-calibrated"
        calibration = shipped_calibration(generation)
        files[name] = calibrated_file(
            resolve_system(base), system_notes(base), calibration, name=name, fitted_to="published runs"
        )
    return files


def main() -> None:
    """Write the files."""
    folder = Path(str(resources.files("codesign_opt.catalog"))) / "systems"
    for name, text in calibrated_systems().items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

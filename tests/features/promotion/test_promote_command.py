"""`launchbay promote` in a directory of files, without a server."""

from pathlib import Path

from click.testing import CliRunner, Result

from launchbay.features.promotion.cli import promote

MANIFEST, NEWER = "launch: { steps: [] }\n", "launch: { steps: [] }\ndestroy: { steps: [] }\n"


def directory(root: Path, staging: str | None = NEWER, production: str | None = None) -> Path:
    """Write an application with a revision for each of two environments."""
    folder = root / "applications" / "shop"
    for name, manifest in (("staging", staging), ("production", production)):
        revision = folder / "revisions" / f"shop-{name}"
        revision.mkdir(parents=True)
        (revision / "revision.yaml").write_text(f"environment: {name}\nparameters: {{ size: 4 }}\n")
        if manifest is not None:
            (revision / "manifest.yaml").write_text(manifest)
    (folder / "manifest.yaml").write_text(MANIFEST)
    return folder / "revisions" / "shop-production"


def run(root: Path, *more: str, to: str = "production") -> Result:
    arguments = ["shop", "--from", "staging", "--to", to, "--directory", str(root), *more]
    return CliRunner().invoke(promote, arguments)


def test_the_revision_of_the_next_environment_gets_the_manifest_and_keeps_its_parameters(tmp_path: Path) -> None:
    revision = directory(tmp_path)
    before = (revision / "revision.yaml").read_text()
    assert run(tmp_path, "--dry-run").stdout.strip() == str(revision / "manifest.yaml")
    assert not (revision / "manifest.yaml").exists()
    assert run(tmp_path).exit_code == 0
    assert (revision / "manifest.yaml").read_text() == NEWER
    assert (revision / "revision.yaml").read_text() == before
    assert "Nothing differs" in run(tmp_path).output


def test_a_manifest_that_is_the_application_s_needs_no_file(tmp_path: Path) -> None:
    revision = directory(tmp_path, staging=None, production=NEWER)
    assert run(tmp_path).exit_code == 0
    assert not (revision / "manifest.yaml").exists()


def test_an_environment_without_a_revision_is_named(tmp_path: Path) -> None:
    directory(tmp_path)
    found = run(tmp_path, to="somewhere")
    assert found.exit_code == 2
    assert "No revision of 'shop' has the environment 'somewhere'." in found.output

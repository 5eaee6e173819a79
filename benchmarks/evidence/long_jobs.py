"""The page of long and wide jobs."""

from typing import Any

from benchmarks.evidence.words import page, table


def long_jobs(results: dict[str, Any]) -> str:
    """Return the page of long and wide jobs."""
    facts, wide, compiled = results["machine"], results["wide"], results["compile"]
    return page(
        "Long jobs",
        f"Measured on {facts['at']}, at {results['scale']:.0%} of the whole size, on {facts['cores']} cores under"
        f" a load of {facts['load_before']:g} to {facts['load_after']:g}. Other work used the cores, so only ratios"
        " mean anything. `python -m benchmarks.long_jobs --json docs/contribute/evidence/data/long-jobs.json` measures"
        " again, at the whole size.",
        "## Chains",
        "Recorded steps, each after the one before. CPU is that of the server and of PostgreSQL; it must be 1 ms at"
        " most for 1,000 steps, and linear.",
        table(
            ("steps", "CPU ms a step", "of the server", "took ms a step"),
            [
                [f"{each['steps']:,.0f}", *(f"{each[name]:.2f}" for name in ("cpu_ms", "server_cpu_ms", "took_ms"))]
                for each in results["chains"]
            ],
        ),
        "## Wide",
        f"One job of {wide['components']:,.0f} components with {wide['steps']:,.0f} recorded steps, a manifest of"
        f" {wide['manifest_kib']:,.0f} KiB: uploaded in {wide['uploaded_s']:.1f} s, accepted in"
        f" {wide['accepted_s']:.1f} s, running after {wide['ran_s']:.1f} s, {wide['cpu_ms']:.2f} ms CPU a step. The"
        f" server had {wide['memory_mb']:.0f} MB then, and the slowest answer to somebody else meanwhile took"
        f" {wide['slowest_answer_s']:.2f} s.",
        "## Compilation",
        f"Manifests of {compiled['kib']:,.0f} KiB, compiled in a thread: what it takes, and what the YAML library takes"
        " for its events alone. Written as the public manifests are, it must be 0.4 s at most; [decision"
        " 0115](../decisions/0115-what-a-manifest-of-1-mib-costs.md) says what the dense one costs.",
        table(
            ("manifest", "CPU s", "events alone, CPU s", "ratio"),
            [
                [title, f"{whole:.2f}", f"{events:.2f}", f"{whole / events:.1f}"]
                for title, whole, events in (
                    (title, compiled[f"{name}_cpu_s"], compiled[f"{name}_events_s"])
                    for title, name in (("as public ones", "usual"), ("a component in each line", "dense"))
                )
            ],
        ),
        "## Taken over",
        "The server is killed in the last step of a chain. CPU of the next one, from its start to the end of the job.",
        table(
            ("recorded steps", "CPU s", "took s"),
            [
                [f"{each['steps']:,.0f}", f"{each['cpu_s']:.2f}", f"{each['took_s']:.1f}"]
                for each in results["taken_over"]
            ],
        ),
    )

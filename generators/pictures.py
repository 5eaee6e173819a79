"""Pictures of the documentation as SVG, in the console's colors for light and dark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

FOLDER = Path("docs/images")
# As in frontend/source/styles/tokens.css: light, dark.
_COLORS = {
    "page": ("#ffffff", "#151a21"),
    "sunken": ("#f6f7f9", "#0e1116"),
    "line": ("#cdd3dc", "#364150"),
    "text": ("#161b25", "#e8ecf2"),
    "soft": ("#485163", "#b2bccb"),
    "accent": ("#3346c4", "#97a8ff"),
    "accent-soft": ("#ecefff", "#1d2447"),
    "ok": ("#12703e", "#5fd393"),
    "ok-soft": ("#e2f4e9", "#10301f"),
    "fail": ("#b8261d", "#ff9189"),
    "fail-soft": ("#fde9e7", "#401a1a"),
    "wait": ("#8a5300", "#f2ba5a"),
    "wait-soft": ("#fdf0d6", "#38290b"),
}
_FONT = 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'
_TONES = {"": ("page", "line"), "group": ("sunken", "line")} | {
    name: (f"{name}-soft", name) for name in ("accent", "ok", "fail", "wait")
}
_LINE_PX = 17


@dataclass
class Picture:
    """A drawing; lengths are pixels. `alt` says for readers without sight what it shows."""

    width: int
    height: int
    alt: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, size: tuple[int, int], title: str, lines: Sequence[str] = (), tone: str = "") -> None:
        """Draw a box with a title and lines below it. A group has its title at the top, others in the middle."""
        width, height = size
        self.parts.append(
            f'<rect class="b-{tone or "plain"}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
        )
        if tone == "group":
            self.text(x + 12, y + 22, title, "soft", anchor="start")
            return
        top = y + height // 2 - _LINE_PX * len(lines) // 2 + 5
        self.text(x + width // 2, top, title, "title")
        for number, line in enumerate(lines, 1):
            self.text(x + width // 2, top + number * _LINE_PX, line, "soft")

    def text(self, x: int, y: int, words: str, kind: str = "", anchor: str = "middle") -> None:
        self.parts.append(
            f'<text class="t-{kind or "plain"}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def arrow(self, *points: tuple[int, int], label: str = "", dashed: bool = False) -> None:
        """Draw an arrow along points. Its label stands above the middle of the longest part."""
        path = " ".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(points))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path class="arrow" d="{path}" marker-end="url(#head)"{dash}/>')
        if label:
            pairs = list(pairwise(points))
            (x, y), (to_x, to_y) = max(
                pairs, key=lambda pair: abs(pair[0][0] - pair[1][0]) + abs(pair[0][1] - pair[1][1])
            )
            is_level = y == to_y
            self.text(
                (x + to_x) // 2 + (0 if is_level else 8),
                (y + to_y) // 2 - (7 if is_level else -4),
                label,
                "soft",
                anchor="middle" if is_level else "start",
            )

    def svg(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.alt)}">'
        yield f"<title>{escape(self.alt)}</title>"
        yield "<style>"
        yield _rules(0)
        yield f"@media (prefers-color-scheme: dark) {{ {_rules(1)} }}"
        yield f"text {{ font: 400 13px {_FONT}; }} .t-title {{ font-weight: 600; }}"
        yield ".arrow { fill: none; stroke-width: 1.5; }"
        yield "</style>"
        yield '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        yield 'markerHeight="8" orient="auto">'
        yield '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        yield f'<rect class="ground" width="{self.width}" height="{self.height}" rx="10"/>'
        yield from self.parts
        yield "</svg>"


def _rules(theme: int) -> str:
    color = {name: pair[theme] for name, pair in _COLORS.items()}
    boxes = [
        f".b-{tone or 'plain'} {{ fill: {color[ground]}; stroke: {color[edge]}; }}"
        for tone, (ground, edge) in _TONES.items()
    ]
    texts = [f".t-plain, .t-title {{ fill: {color['text']}; }}", f".t-soft {{ fill: {color['soft']}; }}"]
    arrows = [f".arrow {{ stroke: {color['soft']}; }}", f".head {{ fill: {color['soft']}; }}"]
    return " ".join([f".ground {{ fill: {color['page']}; }}", *boxes, *texts, *arrows])


def concepts() -> Picture:
    """What belongs to what."""
    picture = Picture(
        820,
        400,
        "An organization has applications and environments. An application is launched as instances in an "
        "environment. Jobs run workflows on an instance, step by step. The environment offers services.",
    )
    picture.box(20, 20, (780, 360), "Organization: users, roles, quotas", tone="group")
    picture.box(
        50,
        70,
        (200, 120),
        "Application",
        ["manifest, version 1, 2, 3 …", "components, workflows", "revisions"],
        "accent",
    )
    picture.box(50, 240, (200, 110), "Environment", ["properties, markers", "policies"])
    picture.box(
        340, 150, (180, 120), "Instance", ["configuration", "signals and results", "Requested → Destroyed"], "ok"
    )
    picture.box(600, 70, (180, 70), "Job", ["one workflow, one time"])
    picture.box(600, 180, (180, 70), "Step", ["one action"])
    picture.box(600, 290, (180, 60), "Machines, APIs, tools")
    picture.arrow((250, 130), (295, 130), (295, 195), (338, 195), label="")
    picture.text(268, 122, "launch", "soft", anchor="start")
    picture.arrow((250, 295), (295, 295), (295, 230), (338, 230))
    picture.text(260, 313, "offers services", "soft", anchor="start")
    picture.arrow((520, 190), (565, 190), (565, 105), (598, 105))
    picture.text(530, 97, "runs jobs", "soft", anchor="start")
    picture.arrow((690, 140), (690, 178))
    picture.arrow((690, 250), (690, 288), label="acts on")
    return picture


def life_cycle() -> Picture:
    """The statuses of an instance."""
    picture = Picture(
        820,
        300,
        "An instance is Requested, then Executing, then Running or Failed. A failed launch can be resumed. A "
        "destroy leads through Destroying to Destroyed, and extending moves the end.",
    )
    picture.box(20, 70, (130, 60), "Requested", ["accepted, waits"], "wait")
    picture.box(220, 70, (130, 60), "Executing", ["launch runs"], "accent")
    picture.box(430, 70, (150, 60), "Running", ["workflows, schedules"], "ok")
    picture.box(220, 200, (130, 60), "Failed", ["resume or destroy"], "fail")
    picture.box(650, 70, (150, 60), "Destroying", ["destroy runs"], "accent")
    picture.box(650, 200, (150, 60), "Destroyed", ["history stays"])
    picture.arrow((150, 100), (218, 100), label="worker")
    picture.arrow((350, 100), (428, 100), label="success")
    picture.arrow((580, 100), (648, 100), label="end")
    picture.arrow((245, 130), (245, 198), label="failure")
    picture.arrow((320, 198), (320, 132), label="resume")
    picture.arrow((725, 130), (725, 198))
    picture.arrow((350, 230), (620, 230), (620, 115), (648, 115), label="destroy")
    picture.arrow((480, 70), (480, 35), (530, 35), (530, 68))
    picture.text(505, 27, "run, reconfigure, extend", "soft")
    return picture


def path_of_a_job() -> Picture:
    """A job from the request to its result."""
    picture = Picture(
        860,
        300,
        "A request is checked and committed as a job with a frozen plan. A worker claims it, runs its steps and "
        "records each in the journal. If the worker dies, another one continues after the last recorded step.",
    )
    picture.box(20, 40, (130, 70), "Request", ["API, console, CLI,", "schedule, trigger"])
    picture.box(200, 40, (160, 70), "Checked", ["permission, manifest,", "plan frozen"], "accent")
    picture.box(410, 40, (140, 70), "Committed", ["answer 200,", "it will run"], "ok")
    picture.box(
        610, 40, (230, 70), "Claimed by a worker", ["with a fence: only the newest", "claim may write"], "accent"
    )
    picture.box(
        610, 180, (230, 90), "Steps", ["begin → act → record", "wait: leaves the worker", "fail: retry, then onFailure"]
    )
    picture.box(320, 180, (190, 90), "Journal", ["recorded steps", "never run again"], "ok")
    picture.box(60, 180, (180, 90), "Another worker", ["takes over after", "missed heartbeats"], "wait")
    picture.arrow((150, 75), (198, 75))
    picture.arrow((360, 75), (408, 75))
    picture.arrow((550, 75), (608, 75))
    picture.arrow((725, 110), (725, 178))
    picture.arrow((608, 225), (512, 225), label="each step")
    picture.arrow((240, 225), (318, 225), label="reads", dashed=True)
    return picture


def one_machine() -> Picture:
    """A deployment of one machine."""
    picture = Picture(
        820,
        280,
        "One machine: launchbay serve contains API, console and engine, and starts its own PostgreSQL. Browsers, "
        "the command line and pipelines reach it by HTTPS; it reaches machines, clouds and tools.",
    )
    picture.box(20, 50, (150, 180), "Clients", tone="group")
    for number, name in enumerate(("Browser", "Command line", "Pipeline")):
        picture.box(35, 85 + number * 47, (120, 38), name)
    picture.box(250, 30, (330, 220), "One machine", tone="group")
    picture.box(275, 70, (280, 80), "launchbay serve", ["API · console · job engine"], "accent")
    picture.box(275, 180, (170, 50), "PostgreSQL, built in", tone="ok")
    picture.box(465, 180, (90, 50), "secret.key")
    picture.box(660, 50, (140, 180), "What steps use", tone="group")
    for number, name in enumerate(("Hosts by SSH", "Clouds", "HTTP APIs")):
        picture.box(672, 85 + number * 47, (116, 38), name)
    picture.arrow((170, 110), (273, 110), label="HTTPS")
    picture.arrow((555, 110), (658, 110), label="outgoing")
    picture.arrow((360, 150), (360, 178))
    return picture


def many_machines() -> Picture:
    """A deployment of many machines."""
    picture = Picture(
        820,
        330,
        "Several machines: a load balancer sends requests to servers, workers add job slots, and all of them share "
        "one PostgreSQL with a standby and one secret key.",
    )
    picture.box(20, 130, (110, 60), "Clients")
    picture.box(180, 130, (130, 60), "Load balancer", ["/health/ready"])
    picture.box(380, 30, (180, 60), "launchbay serve", ["API, console, engine"], "accent")
    picture.box(380, 130, (180, 60), "launchbay serve", ["API, console, engine"], "accent")
    picture.box(380, 230, (180, 60), "launchbay worker", ["engine only"], "accent")
    picture.box(650, 80, (150, 70), "PostgreSQL", ["primary"], "ok")
    picture.box(650, 190, (150, 70), "PostgreSQL", ["standby"])
    picture.arrow((130, 160), (178, 160))
    picture.arrow((310, 150), (345, 150), (345, 60), (378, 60))
    picture.arrow((310, 160), (378, 160))
    picture.arrow((560, 60), (605, 60), (605, 105), (648, 105))
    picture.arrow((560, 160), (605, 160), (605, 115), (648, 115))
    picture.arrow((560, 260), (620, 260), (620, 130), (648, 130))
    picture.arrow((725, 150), (725, 188), label="replication")
    picture.text(470, 315, "All processes have the same secret key. Jobs of a lost one continue on another.", "soft")
    return picture


def permissions() -> Picture:
    """How a request is decided."""
    picture = Picture(
        820,
        260,
        "A user has roles. A role is a list of entries: a permission with paths. A request is allowed if one entry "
        "has the permission and its paths match the object; else the answer is 403.",
    )
    picture.box(20, 90, (140, 70), "User", ["or service account"])
    picture.box(200, 90, (140, 70), "Roles", ["permissions add up"])
    picture.box(
        380, 70, (200, 110), "Entry", ["RunInstanceWorkflow", "on /applications/*", "permission + paths"], "accent"
    )
    picture.box(660, 40, (140, 60), "Allowed", ["an entry matches"], "ok")
    picture.box(660, 150, (140, 60), "403 NotAllowed", ["none matches"], "fail")
    picture.arrow((160, 125), (198, 125))
    picture.arrow((340, 125), (378, 125))
    picture.arrow((580, 105), (620, 105), (620, 70), (658, 70))
    picture.arrow((580, 145), (620, 145), (620, 180), (658, 180))
    picture.text(410, 240, "launchbay permission explain names the role, the entry and the path that decide.", "soft")
    return picture


def pictures() -> dict[Path, str]:
    """Return path → text of every picture."""
    drawn = {
        "concepts": concepts(),
        "life-cycle": life_cycle(),
        "path-of-a-job": path_of_a_job(),
        "one-machine": one_machine(),
        "many-machines": many_machines(),
        "permissions": permissions(),
    }
    return {FOLDER / f"{name}.svg": picture.svg() for name, picture in drawn.items()}

"""The page of the console: its pages with 10,000 instances, and twelve tasks with their clicks and seconds."""

from typing import Any

from benchmarks.evidence.speed import HEADS, lines_of
from benchmarks.evidence.words import made_on, page, table


def console(pages: dict[str, Any]) -> str:
    """Return the page of what the console's pages take and weigh."""
    return page(
        "Console",
        "What the pages of the console take on the server with 10,000 instances and 30,000 jobs, one request at a"
        " time. A read of an instance by the API before each page is the limit: on a busy machine both take longer.",
        "`tests/console/test_budgets.py` holds the bytes of files and pages, requests and elements at each run of the"
        " tests.",
        made_on(pages),
        table(HEADS, lines_of(pages["lines"])),
        "\n".join(f"- {line['what'].removesuffix(', p95')}: {line['beside']}." for line in pages["lines"]),
    )


def console_tasks(found: dict[str, Any]) -> str:
    """Return the page of the twelve tasks."""
    return page(
        "Console tasks",
        f"Twelve tasks of every day with {found['instances']} instances, done in Chromium against a server with its"
        " engine. A task begins at the overview, or at the page of its instance, and ends when its goal is in view, so"
        " that the seconds include the runs that it waits for. Nothing is loaded again by hand.",
        made_on(found),
        table(
            ("task", "clicks", "at most", "fields", "seconds"),
            [
                [
                    each["what"],
                    str(each["clicks"]),
                    str(each["most_clicks"]),
                    str(each["fields"]),
                    f"{each['seconds']:.1f}",
                ]
                for each in found["tasks"]
            ],
        ),
        "`tests/browser/test_twelve_tasks.py` fails if a task takes more clicks. The tasks by keyboard alone are in"
        " `tests/browser/test_keyboard_tasks.py`.",
    )

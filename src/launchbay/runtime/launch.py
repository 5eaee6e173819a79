"""Launching all components of an instance, each when what it requires is there (manifest-language §3, `required`).

After a crash the launch is repeated like a workflow (see there): what had begun comes first, and nothing new begins
while a component whose launch had failed has not come to its failure again.
"""

import asyncio
from collections.abc import Collection

from launchbay.errors import WorkflowFailed
from launchbay.model.job import StepStatus, component_of, segment, workflow_path
from launchbay.runtime.run import JobRun
from launchbay.runtime.signals import missing_for_launch, required_components
from launchbay.runtime.tasks import end_all

LAUNCH = "launch"


async def launch(job: JobRun, paths: Collection[str] | None = None) -> None:
    """Launch every component, or those of these paths, independent ones at the same time.

    After a failure nothing more is started, and what is under way finishes. Raises WorkflowFailed naming every
    component that failed.
    """
    await _Launch(job, job.manifest.order if paths is None else paths).run()


class _Launch:
    def __init__(self, job: JobRun, paths: Collection[str]) -> None:
        self._job = job
        # Those without workflows publish at once; the others see it then, whether they require it or not.
        chosen = set(paths)
        order = [path for path in job.manifest.order if path in chosen]
        order.sort(key=lambda path: bool(job.component(path).workflows))
        self._waiting = dict.fromkeys(order)
        self._running: dict[asyncio.Task[None], str] = {}
        self._failures: dict[str, str] = {}
        self._dependents: dict[str, list[str]] = {}
        for path in order:
            for provider in required_components(job.component(path)):
                self._dependents.setdefault(provider, []).append(path)
        self._failed_before = self._find_failed()
        self._begun_before = self._find_begun()

    async def run(self) -> None:
        self._job.state.begin_launch(self._waiting)
        candidates = list(self._waiting)
        news = asyncio.create_task(self._job.state.next_change.wait())
        try:
            while True:
                self._start(candidates)
                if not self._running:
                    break
                done, _ = await asyncio.wait({*self._running, news}, return_when=asyncio.FIRST_COMPLETED)
                if news in done:
                    news = asyncio.create_task(self._job.state.next_change.wait())
                held = bool(self._failed_before)
                self._settle([task for task in self._running if task in done])
                candidates = self._candidates(after_hold=held and not self._failed_before)
        finally:
            await end_all([news, *self._running])
        self._raise_failures()

    def _start(self, candidates: list[str]) -> None:
        job = self._job
        starts_new = not self._failures and not self._failed_before
        for path in candidates:
            may_start = path in self._waiting and (starts_new or path in self._begun_before)
            if may_start and not missing_for_launch(job, job.component(path)):
                del self._waiting[path]
                self._running[asyncio.create_task(self._launch(path))] = path

    async def _launch(self, path: str) -> None:
        component = self._job.component(path)
        await self._job.component_type(component).launch(self._job, component)

    def _settle(self, tasks: list[asyncio.Task[None]]) -> None:
        """Take note of the launches that ended."""
        job = self._job
        for task in sorted(tasks, key=self._running.__getitem__):
            path = self._running.pop(task)
            failed_before = self._failed_before.pop(path, None)
            try:
                task.result()
            except WorkflowFailed as failure:
                self._failures[path] = failed_before or str(failure)
            else:
                if failed_before is None:
                    job.state.mark_launched(path)
                else:
                    self._failures[path] = failed_before
            if path in self._failures:
                job.journal.fail(workflow_path(path, LAUNCH), LAUNCH, self._failures[path], 1)
                job.state.give_up([path, *(each for each in self._waiting if each not in self._begun_before)])

    def _candidates(self, *, after_hold: bool) -> list[str]:
        """Return the components that may have got what they lacked."""
        news = self._job.state.take_news()
        if after_hold:
            return list(self._waiting)
        return list(dict.fromkeys(each for path in sorted(news) for each in self._dependents.get(path, ())))

    def _raise_failures(self) -> None:
        job = self._job
        if not self._failures:
            self._failures = {path: "; ".join(missing_for_launch(job, job.component(path))) for path in self._waiting}
        if self._failures:
            told = (f"Component {path!r}: {text}" for path, text in sorted(self._failures.items()))
            raise WorkflowFailed(" ".join(told))

    def _find_failed(self) -> dict[str, str]:
        """Return the components whose launch has failed before a crash, with the reason."""
        failed: dict[str, str] = {}
        for path in self._waiting:
            record = self._job.journal.find(workflow_path(path, LAUNCH))
            if record is not None and record.status is StepStatus.FAILED:
                failed[path] = record.error or "the launch failed."
        return failed

    def _find_begun(self) -> set[str]:
        """Return the components whose launch had surely begun before a crash."""
        if not (traces := self._job.journal.traces()):
            return set()
        traced = {component_of(path) for path in traces}
        begun = {path for path in self._waiting if segment(path) in traced}
        open_paths = list(begun)
        while open_paths:
            for provider in required_components(self._job.component(open_paths.pop())) - begun:
                begun.add(provider)
                open_paths.append(provider)
        # What waits for nothing begins in the first moment.
        return begun | {path for path in self._waiting if not required_components(self._job.component(path))}

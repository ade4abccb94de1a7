"""What one browser tab is looking at, and what its buttons do. Knows nothing of how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import field as default
from typing import Final

from ctxviz.errors import CtxvizError, PromptError
from ctxviz.folds import Fold
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.ui.focus import Did, Focus
from ctxviz.ui.jobs import PatchRequest, TokenRequest, replay_job, run_job, wish_of
from ctxviz.ui.picture_jobs import PictureRequest, Question
from ctxviz.ui.picture_source import drawn
from ctxviz.ui.prompt_check import check_prompt
from ctxviz.ui.recorded import RECORDED, recorded_run
from ctxviz.ui.tab_pictures import ASKED, Asked, TabPictures, hashes
from ctxviz.ui.tab_runs import TabRuns, noted
from ctxviz.ui.tab_sweep import TabSweep
from ctxviz.ui.url_state import Link
from ctxviz.ui.views import STOPPED_EARLY, View, views
from ctxviz.ui.watching import Watches
from ctxviz.ui.worker import worker

_LOOKED_AT: Final = ("step", "layer", "variant", "metric", "left", "right", "coordinate", "view")
_ASIDE: Final = {name: getattr(Link(), name) for name in _LOOKED_AT}
FIRST_RECORDED: Final = next(iter(RECORDED))


@dataclass
class Session(TabPictures, TabSweep, TabRuns):
    """One tab: the view on screen, the earlier ones, and messages that wait to be shown."""

    view: View
    recorded: bool = True
    settled: bool = False
    """Whether the page was drawn before."""
    notices: list[str] = default(default_factory=list)
    """Sentences about what could not be done; shown until something else is asked for."""
    watches: Watches = default(default_factory=lambda: Watches({}))
    """What the page that is being drawn shows of what changes by itself."""
    announcement: str = ""
    """A sentence about what was done; shown until something else is asked for."""
    focus: Focus = default(default_factory=Focus)
    heard: int = 0
    """How many of the reader's doings in the live view were followed."""
    request: TokenRequest | None = None
    patch: PatchRequest | None = None
    looks: dict[Question, PictureRequest] = default(default_factory=dict)
    """What was asked about the pictures of the run on screen."""
    link: Link | None = None
    """What the address said to look at, until the reader looks at something else."""

    @classmethod
    def begin(cls) -> Session:
        """A tab that shows the recorded run, or an empty view where there is none."""
        return cls(_recorded_view(), recorded=True)

    def shown(self) -> dict[str, View]:
        """All views that a page may show, by names that stay the same."""
        asked = {"sweep": self.sweep, "tokens": self.request, "patch": self.patch}
        found = {name: request.view for name, request in asked.items() if request is not None}
        looks = {request.view.id: request.view for request in self.looks.values()}
        return {"run": self.view} | found | looks

    def take(self, link: Link) -> None:
        """Begin with what a link says: its drawn scenes, and what to look at."""
        self.pictures[:] = drawn(link.scenes)
        self.follow(link)

    def follow(self, link: Link) -> None:
        """Look at what a link says: at once in a run of its prompt, else when its run is made."""
        self.link = link
        self.focus = _focus_of(link) if self._shows_prompt_of(link) else Focus(metric=link.metric)

    def _shows_prompt_of(self, link: Link) -> bool:
        """Whether the run on screen is of a link's prompt and pictures."""
        run = self.view.run
        pictures = hashes(self.used(link.model))
        return run is not None and (run.context.prompt, run.context.image_sha256) == (link.prompt, pictures)

    def _awaits(self, link: Link) -> bool:
        """Whether ``link`` asks for the run of which the address said what to look at, and which was not
        made yet; after a reload it may be on screen."""
        made = not self.recorded and self._shows_prompt_of(link)
        return self.link is not None and _same_run(self.link, link) and not made

    def described(self, link: Link) -> Link:
        """What the address is to say: the settings in ``link``, with what is or will be looked at."""
        if self.link is None or not _same_run(self.link, link):
            return link
        return replace(link, step=self.link.step, layer=self.link.layer, variant=self.link.variant)

    def pick(self, step: int, layer: int | None, variant: int) -> None:
        """Look at a token, or a cell of the heat map."""
        self.link = None
        self.focus = replace(self.focus, step=step, layer=layer, variant=variant)

    def look_at_variant(self, variant: int) -> None:
        """Look at another variant, at the same token and layer."""
        self.link = None
        self.focus = replace(self.focus, variant=variant)

    def start(self, link: Link, tokens: int | None = None) -> None:
        """Make a new run and look at it; the one that is on screen is stopped and kept.

        Raises:
            CtxvizError: prompt or settings cannot be used, or too many runs are under way.
        """
        check_prompt(link.prompt)
        settings = link.settings()
        view = views().create()
        view.tell("queued")
        pictures = self.used(link.model)
        worker().submit(run_job(view, link.model, link.prompt, settings, tokens, pictures))
        worker().end(self.view.id)
        ASKED[view] = Asked(pictures, settings.fold)
        awaited = self.link if self._awaits(link) else None
        self.look_at(view)
        if awaited is not None:
            self.link = awaited
            self.focus = replace(_focus_of(awaited), metric=self.focus.metric)

    def step(self, link: Link) -> None:
        """Exactly one more token, of the run that is under way or of a new one.

        Raises:
            CtxvizError: as :meth:`start`.
        """
        if self.goes_on(link):
            worker().step(self.view.id)
        else:
            self.start(link, tokens=1)

    def generate(self, link: Link) -> None:
        """All tokens: the rest of a run that may continue, or a new run.

        Raises:
            CtxvizError: as :meth:`start`.
        """
        if self.may_continue(link):
            worker().go_on(self.view.id)
        else:
            self.start(link)

    def stop(self) -> None:
        worker().stop(self.view.id)

    def may_continue(self, link: Link) -> bool:
        """Whether the run on screen was paused or stopped, can go on, and is the one ``link`` describes."""
        return self.view.state in ("paused", "stopped") and self.goes_on(link)

    def goes_on(self, link: Link) -> bool:
        """Whether the run on screen can make further tokens and is the one that ``link`` describes."""
        try:
            wish = wish_of(link.model, link.prompt, link.settings(), self.used(link.model))
            return worker().wish(self.view.id) == wish
        except CtxvizError:
            return False

    def look_at(self, view: View, *, recorded: bool = False) -> None:
        """Put another view on screen and keep the present one to return to."""
        self.put_aside(self.view, recorded=self.recorded)
        self.announcement = ""
        self.view, self.recorded = view, recorded
        self._look_afresh()

    def _look_afresh(self) -> None:
        """Look at nothing in particular: a place in one run means nothing in another."""
        self.link = None
        self.focus = Focus(metric=self.focus.metric)

    def hush(self) -> None:
        """Forget what was said about what was asked for before."""
        self.notices.clear()
        self.announcement = ""

    def go_back(self) -> None:
        """Return to the run that was on screen before; the present one is stopped, and stays to go on to."""
        self._move(self.earlier, self.later)

    def go_forward(self) -> None:
        """Return to the run that was gone back from last."""
        self._move(self.later, self.earlier)

    def _move(self, source: list[tuple[View, bool]], target: list[tuple[View, bool]]) -> None:
        if not source:
            return
        self.hush()
        worker().end(self.view.id)
        if self.view.run is not None:
            target.append((self.view, self.recorded))
        self.view, self.recorded = source.pop()
        self._look_afresh()

    def show_recorded(self, name: str = FIRST_RECORDED) -> None:
        """Look at a run that comes with ctxviz, if it is not the one on screen."""
        self.hush()
        run = recorded_run(name)
        if run is None:
            self.notices.append(
                "This recorded run cannot be read; install ctxviz again, or make a run of your own."
            )
        elif run is not self.view.run:
            self.look_at(_recorded_view(name), recorded=True)

    def open(self, run: Run) -> None:
        """Look at a run from a file."""
        self.hush()
        view = views().create()
        view.rest(run)
        self.look_at(view)

    def holds_own(self) -> bool:
        """Whether the tab has a run of its own to lose."""
        return any(view.run is not None for view in self.own(self.view, recorded=self.recorded))

    def resume(self, tab: str) -> bool:
        """Hold the runs that this tab held under its name before a reload; False if they are gone."""
        before = None if tab == self.tab else noted(tab)
        shown = None if before is None else self.take_back(before)
        if before is None or shown is None:
            return False
        self.sweep = before.sweep
        view, self.recorded = shown
        self.view = view
        self.hush()
        asked = self.bring_back(view)
        if asked is not None and self.link is not None and asked.fold.number and self.link.fold == Fold():
            # An address cannot name one of several pictures where it does not hold them all.
            self.link = replace(self.link, fold=asked.fold)
        if self.link is not None:
            self.focus = _focus_of(self.link)
        return True

    def notice(self, did: Did) -> None:
        """Follow what the reader did in the live view; called before anything is drawn."""
        self.heard = max(self.heard, did.count)
        # Of two things done at once only the last is told: the place says that something was picked too.
        if did.picked or replace(did.focus, metric=self.focus.metric) != self.focus:
            self.link = None
        elif self.link is not None:
            self.link = replace(self.link, metric=did.focus.metric)
        self.focus = did.focus

    def revive(self) -> None:
        """Give the run on screen a new view where its own was given up for newer ones of other tabs."""
        if views().get(self.view.id) is None:
            view = views().create()
            if self.view.run is not None:
                view.rest(self.view.run, self.view.notes)
            self.view = view

    def leave_what_never_began(self) -> None:
        """A run that ended before its first token makes room for the one before it; its sentence is kept."""
        if self.view.run is None and self.view.state in ("failed", "stopped"):
            self.notices.append(self.view.message or STOPPED_EARLY)
            self.view, self.recorded = self.earlier.pop() if self.earlier else (_recorded_view(), True)
            if self.link is not None:
                self.follow(replace(self.link, metric=self.focus.metric))

    def ask_for_tokens(self, model: str, prompt: str) -> None:
        """Have the worker tokenise the prompt.

        Raises:
            CtxvizError: the prompt cannot be used, or the worker is busy.
        """
        check_prompt(prompt)
        request = TokenRequest(views().create(), model, prompt, self.used(model))
        worker().submit(request.job())
        self.request = request

    def replay(self, reference: str, settings: RunSettings) -> None:
        """Make the run on screen again, token for token, with the replays of ``settings``.

        Raises:
            CtxvizError: there is no run, it is still being made, or too many are under way.
        """
        run = self.view.run
        if run is None or not len(run) or worker().has(self.view.id):
            raise PromptError("There is no finished run to replay; make one, or wait until it has ended.")
        view = views().create()
        view.tell("queued")
        worker().submit(replay_job(view, reference, run, settings))
        worker().end(self.view.id)
        if self.view in ASKED:
            ASKED[view] = ASKED[self.view]
        self.look_at(view)

    def answer_to(self, question: Question, run: Run) -> PictureRequest | None:
        """What was asked about the pictures of that run, and the answer as far as it is known."""
        request = self.looks.get(question)
        return request if request is not None and request.run is run else None

    def ask_for_patch(self, reference: str, step: int, variant: int) -> None:
        """Have the worker build a token's patch again.

        Raises:
            CtxvizError: there is no run, or the worker is busy.
        """
        run = self.view.run
        if run is None or step >= len(run):
            raise PromptError("There is no such token in the run on screen; choose another.")
        request = PatchRequest(views().create(), reference, run, step, variant)
        worker().submit(request.job())
        self.patch = request

    def stop_patch(self) -> None:
        if self.patch is not None:
            worker().stop(self.patch.view.id)

    def tokens_of(self, model: str, prompt: str) -> tuple[str, ...] | None:
        """The prompt's own tokens as far as they are known without loading anything."""
        request = self.request
        contexts = [
            (run.model.key, run.context)
            for run in (self.view.run, *(view.run for view, _ in (*self.earlier, *self.later)))
            if run is not None
        ]
        if request is not None and request.context is not None:
            contexts.append((request.reference, request.context))
        wanted = (model, prompt, hashes(self.used(model)))
        return next((c.token_texts for key, c in contexts if (key, c.prompt, c.image_sha256) == wanted), None)


def _focus_of(link: Link) -> Focus:
    return Focus(link.step, link.layer, link.variant, link.metric)


def _same_run(one: Link, other: Link) -> bool:
    """Whether two links ask for the same run, whatever is looked at."""
    return replace(one, **_ASIDE) == replace(other, **_ASIDE)


def _recorded_view(name: str = FIRST_RECORDED) -> View:
    view = views().create()
    run = recorded_run(name)
    if run is not None:
        view.rest(run)
    return view

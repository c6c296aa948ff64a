"""One rank plays its rounds: a test a round, none of which may stop the tournament."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from checks.culprit.rounds import Round
from checks.culprit.test_rows import Ending, Trial
from checks.model import PairOutcome
from checks.probes.pairs.gossip import Gossip
from checks.probes.pairs.pair_test import TAGS, Buffers, PairTest, Sizes
from checks.probes.pairs.pair_wait import PairWait, broken, left, not_run, unsure
from checks.probes.pairs.rendezvous import Board

FIRST_LOOK = 4  # after so many rounds their cost is looked at, and again whenever their number has doubled
RUN_TAGS = 1 << 18


@dataclass
class RankSchedule:
    """A rank in its tournament. `number` counts the tournaments of this process, so that tags do not meet again.

    `resent` reads how many TCP segments this host sent again since it started, None where that cannot be told.
    `unsure`: others may stop before a round that this one plays. `gone`: the ranks without whom nothing that all do
    together can end, as the ranks agreed.
    """

    ranks: int
    sizes: Sizes
    buffers: Buffers
    meetings: PairWait
    number: int
    budget_s: float
    resent: Callable[[], int | None]
    tests: list[Trial] = field(default_factory=list)
    index: int = 0
    left_out: int = 0
    stopped: Ending | None = None
    hung: bool = False
    gone: tuple[int, ...] = ()
    unsure: bool = False
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.rumour = Gossip(self.ranks)

    @property
    def me(self) -> int:
        """This rank."""
        return self.meetings.me

    @property
    def board(self) -> Board:
        """Where ranks leave notes."""
        return self.meetings.board

    def play(self, rounds: Sequence[Round]) -> None:
        """The planned rounds, as many as the budget allows: all ranks stop before the same round."""
        look, most = FIRST_LOOK, len(rounds)
        for done, round_ in enumerate(rounds):
            if done == look and done < most:
                look, most = 2 * look, self._agreed(done, most)
            if done >= most:
                break
            self._round(round_)
        self.left_out += len(rounds) - min(most, len(rounds))

    def play_all(self, rounds: Sequence[Round]) -> None:
        """These rounds, whatever they cost."""
        for round_ in rounds:
            self._round(round_)

    def leave(self) -> None:
        """Tell those who wait that nothing more will come, and write no more notes."""
        self.meetings.leave()
        self.board.close()

    def affordable(self) -> int:
        """How many more rounds the budget has time for, at what they cost so far."""
        spent = time.monotonic() - self.begun
        return max(0, int((self.budget_s - spent) * self.index / max(spent, 1e-6)))

    def _agreed(self, done: int, most: int) -> int:
        """How many rounds are to be played in all: the first opinion counts, so that nobody leaves a partner waiting."""
        agreed = self.board.agree(f"rounds/{self.index}", str(min(most, done + self.affordable())))
        self.unsure = agreed is None
        return int(agreed) if agreed is not None and agreed.isdigit() else most

    def _round(self, round_: Round) -> None:
        peer = round_.partner(self.me)
        if peer is not None:
            self.tests.append(self._test(peer))
        self.index += 1

    def _test(self, peer: int) -> Trial:
        if not self.stopped and time.monotonic() > self.meetings.patience.end:
            self._stop(not_run("the check's time was used up"))
        if self.stopped:
            return Trial(peer, self.stopped)
        if self.rumour.silent(peer):
            return Trial(peer, self._untried(peer))
        return self._meet(peer)

    def _untried(self, peer: int) -> Ending:
        named = self.rumour.accusers(peer)
        if peer in named:
            return left(peer)
        said = f"not tried: it did not answer ranks {' and '.join(map(str, named))}"
        return Ending(PairOutcome.NOT_RUN, said)

    def _meet(self, peer: int) -> Trial:
        tag = self.number % 1024 * RUN_TAGS + self.index * TAGS
        duel = PairTest(self.me, peer, tag, self.sizes, self.buffers, self.rumour.words())
        before = self.resent()
        given_up = self.meetings.wait(duel, self.index)
        after = self.resent()
        test = replace(duel.test, peer=peer)
        if before is not None and after is not None:
            test.retransmits = max(0, after - before)
        if duel.abandoned:
            self._abandon(peer)
        if given_up or duel.error:
            test.ending, test.bandwidth_gbps = given_up or broken(duel.error), None
            if self.unsure and not duel.steps and test.ending.outcome.is_silence:
                test.ending = unsure(peer)
                self.meetings.patience.unanswered += 1
                return test
        elif test.wrong_elements:
            test.ending = Ending(PairOutcome.FAILED, f"{test.wrong_elements} wrong elements")
        self._remember(peer, duel, test.ending.outcome)
        return test

    def _abandon(self, peer: int) -> None:
        """A duel that hangs keeps its buffers; where it holds the communicator as well, it was the last."""
        if self.meetings.fragile:
            self.hung = True
            self._stop(not_run(f"the exchange with rank {peer} hangs and blocks this rank's communicator"))
        else:
            self.buffers = self.buffers.renewed()

    def _stop(self, why: Ending) -> None:
        self.stopped = why
        self.meetings.leave()

    def _remember(self, peer: int, duel: PairTest, outcome: PairOutcome) -> None:
        self.rumour.learn(duel.heard)
        if outcome.is_silence:
            self.rumour.accuse(peer, self.me, self.index)
            self.meetings.patience.unanswered += 1
            return
        self.meetings.patience.unanswered = 0
        if duel.heard:
            self.rumour.heard(peer, self.index)
            self.rumour.heard(self.me, self.index)
        elif outcome is PairOutcome.PEER_LEFT:
            self.rumour.accuse(peer, peer, self.index)

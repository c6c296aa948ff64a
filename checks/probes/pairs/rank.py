"""One rank runs its rounds of pair tests, one test per round. A test that fails does not stop the later rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from checks.culprit.rounds import Round
from checks.culprit.test_rows import PairEnding, Trial
from checks.model_details import PairOutcome
from checks.probes.pairs.gossip import Gossip
from checks.probes.pairs.pair_test import TAGS, Buffers, PairTest, Sizes
from checks.probes.pairs.pair_wait import PairWait, broken, left, not_run, unsure
from checks.probes.pairs.rendezvous import NoteStore
from checks.probes.pairs.tcp_counters import TcpCounters

# After this many rounds their cost is estimated, and again each time their number has doubled.
FIRST_ESTIMATE = 4
RUN_TAGS = 1 << 18
# Five waits leave half of the time for tests.
WAIT_SHARE = 0.1


@dataclass
class RankSchedule:
    """The pair tests of one rank. `number` counts such runs of this process, so that the tags of two runs differ.

    `counters` reads how many TCP segments this host has sent since it started. `unsure`: other ranks
    may stop before a round that this one runs. `gone`: the ranks, as all ranks agreed, without which no collective of all ranks can
    complete.
    """

    ranks: int
    sizes: Sizes
    buffers: Buffers
    pair_wait: PairWait
    number: int
    budget_s: float
    counters: Callable[[], TcpCounters]
    tests: list[Trial] = field(default_factory=list)
    index: int = 0
    left_out: int = 0
    stopped: PairEnding | None = None
    hung: bool = False
    gone: tuple[int, ...] = ()
    unsure: bool = False
    begun: float = field(default_factory=time.monotonic)
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        self.gossip = Gossip(self.ranks)

    @property
    def me(self) -> int:
        """The number is that of the rank itself."""
        return self.pair_wait.me

    @property
    def note_store(self) -> NoteStore:
        """The store in which ranks leave notes for each other."""
        return self.pair_wait.note_store

    def run(self, rounds: Sequence[Round]) -> None:
        """Runs the planned rounds, as many as the budget allows. All ranks stop before the same round."""
        next_estimate, most = FIRST_ESTIMATE, len(rounds)
        for done, round_ in enumerate(rounds):
            if done == next_estimate and done < most:
                next_estimate, most = 2 * next_estimate, self._agreed(done, most)
            if done >= most:
                break
            self._round(round_)
        self.left_out += len(rounds) - min(most, len(rounds))

    def repeat(self, sweep: Sequence[Round], times: int, seconds: float) -> int:
        """Runs the rounds of a sweep again, so often at most and as whole sweeps only, as long as that fits into so many seconds and
        into half of the budget that is left. All ranks make the same number. Returns it.
        """
        rounds_s = (time.monotonic() - self.begun) / max(1, self.index) * len(sweep)
        end = time.monotonic() + min(seconds, (self.budget_s - (time.monotonic() - self.begun)) / 2)
        repeated, step = 0, 1
        while repeated < times and sweep:
            fit = max(0, int((end - time.monotonic()) / max(rounds_s, 1e-6)))
            wanted = 0 if self.stopped or self.gossip.any_silent else min(step, times - repeated, fit)
            agreed = self.note_store.agree(f"sweeps/{self.index}", str(wanted))
            # Without an answer others may make another number of sweeps: whoever does not answer then is not blamed for it.
            self.unsure = self.unsure or agreed is None
            some = wanted if agreed is None or not agreed.isdigit() else min(int(agreed), times - repeated)
            if some == 0:
                break
            begun = time.monotonic()
            for _ in range(some):
                self.run_all(sweep)
            rounds_s = (time.monotonic() - begun) / some
            repeated, step = repeated + some, 2 * step
            if self.unsure:
                break
        return repeated

    def run_all(self, rounds: Sequence[Round]) -> None:
        """Runs these rounds, whatever they cost."""
        for round_ in rounds:
            self._round(round_)

    def wait(self, seconds: float) -> None:
        """Measures nothing for so long, as all ranks do, but for a small share of the time that is left at most."""
        left_s = self.pair_wait.limits.end - time.monotonic()
        seconds = max(0.0, min(seconds, WAIT_SHARE * left_s))
        time.sleep(seconds)
        self.waited_s += seconds

    def leave(self) -> None:
        """Tells the ranks that wait that this one runs no more tests, and writes no more notes."""
        self.pair_wait.leave()
        self.note_store.close()

    def affordable(self) -> int:
        """The number of further rounds for which the budget has time, at the cost of the rounds so far."""
        spent = time.monotonic() - self.begun - self.waited_s
        return max(0, int((self.budget_s - spent) * self.index / max(spent, 1e-6)))

    def _agreed(self, done: int, most: int) -> int:
        """How many rounds are run in all. The first rank's proposal counts, so that no partner waits in vain."""
        agreed = self.note_store.agree(f"rounds/{self.index}", str(min(most, done + self.affordable())))
        self.unsure = agreed is None
        return int(agreed) if agreed is not None and agreed.isdigit() else most

    def _round(self, round_: Round) -> None:
        peer = round_.partner(self.me)
        if peer is not None:
            began_s = time.monotonic() - self.begun
            self.tests.append(replace(self._test(peer), in_round=self.index, began_s=began_s))
        self.index += 1

    def _test(self, peer: int) -> Trial:
        if not self.stopped and time.monotonic() > self.pair_wait.limits.end:
            self._stop(not_run("the check's time was used up"))
        if self.stopped:
            return Trial(peer, self.stopped)
        if self.gossip.silent(peer):
            return Trial(peer, self._untried(peer))
        return self._meet(peer)

    def _untried(self, peer: int) -> PairEnding:
        accusers = self.gossip.accusers(peer)
        if peer in accusers:
            return left(peer)
        text = f"not tried: it did not answer ranks {' and '.join(map(str, accusers))}"
        return PairEnding(PairOutcome.NOT_RUN, text)

    def _meet(self, peer: int) -> Trial:
        tag = self.number % 1024 * RUN_TAGS + self.index * TAGS
        pair_test = PairTest(self.me, peer, tag, self.sizes, self.buffers, self.gossip.encode())
        before = self.counters()
        given_up = self.pair_wait.wait(pair_test, self.index)
        after = self.counters()
        test = replace(
            pair_test.test,
            peer=peer,
            retransmits=_grown(before.resent, after.resent),
            data_segments=_grown(before.data, after.data),
            needless_retransmits=_grown(before.needless, after.needless),
        )
        if pair_test.abandoned:
            self._abandon(peer)
        if given_up or pair_test.error:
            test.ending, test.bandwidth_gbps = given_up or broken(pair_test.error), None
            if self.unsure and not pair_test.steps and test.ending.outcome.is_silence:
                test.ending = unsure(peer)
                self.pair_wait.limits.unanswered += 1
                return test
        elif test.wrong_elements:
            test.ending = PairEnding(PairOutcome.FAILED, f"{test.wrong_elements} wrong elements")
        self._remember(peer, pair_test, test.ending.outcome)
        return test

    def _abandon(self, peer: int) -> None:
        """A test that hangs keeps its buffers. If it also blocks the communicator, it was this rank's last test."""
        if self.pair_wait.fragile:
            self.hung = True
            self._stop(not_run(f"the exchange with rank {peer} hangs and blocks this rank's communicator"))
        else:
            self.buffers = self.buffers.renewed()

    def _stop(self, reason: PairEnding) -> None:
        self.stopped = reason
        self.pair_wait.leave()

    def _remember(self, peer: int, pair_test: PairTest, outcome: PairOutcome) -> None:
        self.gossip.learn(pair_test.heard)
        if outcome.is_silence:
            self.gossip.accuse(peer, self.me, self.index)
            self.pair_wait.limits.unanswered += 1
            return
        self.pair_wait.limits.unanswered = 0
        if pair_test.heard:
            self.gossip.heard(peer, self.index)
            self.gossip.heard(self.me, self.index)
        elif outcome is PairOutcome.PEER_LEFT:
            self.gossip.accuse(peer, peer, self.index)


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)

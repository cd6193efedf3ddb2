"""Small random histories of one partition and one group: well formed, with arbitrary contents."""

from __future__ import annotations

import random

from tests.checkers.histories import FINAL_MS, MS, TOPIC, History

OFFSETS = 5
READERS = (900, 901)
FINAL_READERS = (990, 991)
MEMBERS = (501, 502)
GHOST = 999
HEALED_MS, BOUND_MS = 8, 4
"""When the main phase begins, and for how long after it nothing may be unavailable."""
STATUSES = ("ok", "info", "fail")


class Wild:
    """Every process does one thing at a time; half of them are replaced after an operation of unknown outcome."""

    def __init__(self, name: str, seed: int) -> None:
        self._choices = random.Random(seed)
        self.history = History(name, unavailable_after_ms=BOUND_MS)
        self.history.tables["phases"][0]["started_ns"] = HEALED_MS * MS
        self._free_ms: dict[int, int] = {}
        self._numbers = {process: process for process in (1, 2, 3)}
        self._sent: dict[int, int | None] = {}
        for index in range(self._few(6)):
            self._send(100 + index)
        for _ in range(self._few(4)):
            self._poll()
        for _ in range(self._few(2)):
            self.history.latest(self._offset(), self._span(800, 20), node=self._choices.choice((1, 2, None)))
        self._final()
        if self._maybe(0.3):
            self._samples()
        if self._maybe(0.3):
            for broker in (1, 2):
                self._log(broker)
        if self._maybe(0.5):
            self._group()

    def _few(self, most: int) -> int:
        return self._choices.randint(0, most)

    def _maybe(self, share: float) -> bool:
        return self._choices.random() < share

    def _offset(self) -> int:
        return self._choices.randrange(OFFSETS)

    def _span(self, process: int, latest_ms: int) -> tuple[int, int]:
        begins = max(self._free_ms.get(process, 0), self._choices.randint(3, latest_ms))
        ends = begins + self._few(6)
        self._free_ms[process] = ends + self._few(1)
        return begins, ends

    def _send(self, value: int) -> None:
        index = self._choices.choice((1, 1, 2, 3))
        begins, ends = self._span(index, 15)
        status = self._choices.choices(STATUSES, (7, 2, 1))[0]
        self._sent[value] = self._offset() if status == "ok" and self._maybe(0.9) else None
        self.history.send(
            value,
            (begins, ends),
            offset=self._sent[value],
            process=self._numbers[index],
            status=status,
            acks=self._choices.choices((-1, 1, 0), (8, 1, 1))[0],
        )
        if status == "info" and self._maybe(0.5):
            self._numbers[index] += 10

    def _records(self, position: int) -> list[tuple[int, int | None]]:
        offsets = [offset for offset in range(position, OFFSETS) if self._maybe(0.6)]
        if self._maybe(0.1):
            self._choices.shuffle(offsets)
        return [(offset, self._value(offset)) for offset in offsets]

    def _value(self, offset: int) -> int | None:
        true = [value for value, sent_at in self._sent.items() if sent_at == offset]
        if true and self._maybe(0.7):
            return self._choices.choice(true)
        return self._choices.choice((*self._sent, 1, GHOST, None) if self._maybe(0.3) else (*self._sent, 1))

    def _poll(self) -> None:
        reader = self._choices.choice(READERS)
        position = self._offset()
        records = self._records(position)
        behind = max((offset for offset, _ in records), default=position - 1) + 1
        status = self._choices.choices(STATUSES, (9, 1, 1))[0]
        self.history.poll(
            position,
            records,
            self._span(reader, 25),
            next_position=behind + self._few(1),
            process=reader,
            status=status,
            node=self._choices.choice((1, 2, None)),
            high_watermark=self._choices.choice((None, self._offset())),
            assigned=self._maybe(0.3),
            epochs=[self._few(2) for _ in records],
        )

    def _final(self) -> None:
        for process in FINAL_READERS[: self._choices.choice((1, 1, 2))]:
            position = self._choice_of_start()
            for _ in range(self._choices.randint(1, 2)):
                records = [(offset, self._value(offset)) for offset in range(position, OFFSETS) if self._maybe(0.8)]
                records = records[: self._choices.randint(1, OFFSETS)]
                behind = max((offset for offset, _ in records), default=position - 1) + 1
                begins = FINAL_MS + self._few(5)
                self.history.poll(
                    position, records, (begins, begins + 1), process=process, phase="final", node=None,
                    assigned=True, next_position=behind,
                )  # fmt: skip
                position = behind + self._choices.choice((0, 0, 0, 1))
        if self._maybe(0.9):
            self.history.row("ends", topic=TOPIC, partition=0, end_offset=self._few(OFFSETS), agreed=self._maybe(0.85))

    def _choice_of_start(self) -> int:
        return self._choices.choice((0, 0, 0, 0, 1))

    def _log(self, broker: int) -> None:
        values = [self._choices.choice((101, 102, 103)) for _ in range(self._few(4))]
        self.history.log(
            broker,
            values,
            high_watermark=self._few(OFFSETS),
            epochs=[self._few(1) for _ in values],
            first=self._choices.choice((0, 0, 1)),
        )

    def _samples(self) -> None:
        """Between the moments of operations, so that none of them is at the moment of a sample."""
        epoch = self._few(1)
        for at_ms in range(HEALED_MS - 2, HEALED_MS + BOUND_MS + self._few(4)):
            for broker in (1, 2):
                self.history.sampled(
                    at_ms,
                    broker if self._maybe(0.5) else 3 - broker,
                    epoch,
                    isr=(1, 2, 3) if self._maybe(0.2) else (1, 2),
                    high_watermark=self._offset(),
                    brokers=(broker,),
                )
                self.history.tables["cluster"][-1]["at_ns"] += MS // 2
            epoch += self._choices.choice((0, 0, 0, 1))

    def _group(self) -> None:
        for _ in range(self._few(4)):
            member = self._choices.choice(MEMBERS)
            begins, ends = self._span(member, 20)
            status = self._choices.choices(STATUSES, (6, 2, 1))[0]
            self.history.commit(
                self._few(3),
                (begins, None if status == "info" else ends),
                generation=self._choices.randint(1, 3),
                process=member,
                status=status,
            )
        for _ in range(self._few(4)):
            member = self._choices.choice(MEMBERS)
            self.history.committed(
                self._choices.choice((None, 0, 1, 2, 3)),
                self._span(member, 25),
                process=member,
                status="ok" if self._maybe(0.9) else "fail",
            )
        free_ms = dict.fromkeys(MEMBERS, 0)
        for _ in range(self._few(4)):
            member = self._choices.choice(MEMBERS)
            since = free_ms[member] + self._few(5)
            free_ms[member] = until = since + self._few(5)
            known = self._maybe(0.9)
            self.history.owned(member, self._choices.randint(1, 2), (since, until if known else None))

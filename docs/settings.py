"""Prints docs/reference/settings.md: every setting of topics and of brokers, as the tables in the code have them.

Run from the root of the repository: `python -m docs.settings > docs/reference/settings.md`. A test
(tests/repository/test_settings_page.py) compares the page with the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from broker.core.configuration.brokers import BROKER_SETTINGS, BrokerSetting
from broker.core.configuration.topics import TOPIC_SETTINGS, TopicSetting
from broker.core.configuration.values import INT32_MAX, INT64_MAX, INTERVAL

_PREAMBLE = """# Settings of topics and brokers

Kafka's names and, but where it says otherwise, Kafka's meanings. What is not here Harrow does not have: a file with it
does not start, and CreateTopics, AlterConfigs and IncrementalAlterConfigs refuse it. How settings are altered and which
value is in force: [the broker as a program](broker.md#settings-that-change-while-brokers-run).

Made by `python -m docs.settings > docs/reference/settings.md` from `broker/core/configuration`.
"""

_OF_TOPICS = """## Topics

All can be altered at any time. A topic that does not say otherwise has the value of the broker's setting.

| setting | legal values | the broker's setting | default | meaning |
|---|---|---|---|---|
"""

_OF_BROKERS = """## Brokers and controllers

*Altered for*: `broker`: one broker (by its id) or all (without a name), while they run; `cluster`: all at once, because
the controller decides by it or all nodes must agree; read-only: the file alone says it.

| setting | legal values | default | altered for | meaning |
|---|---|---|---|---|
"""

_WORDS_OF_NUMBERS = {
    str(INT64_MAX): "2^63 - 1",
    str(INT32_MAX): "2^31 - 1",
}


def _legal(setting: TopicSetting | BrokerSetting) -> str:
    text = re.sub(r"a whole number from (-?\d+) to (\d+)", r"\1 … \2", setting.type.expected)
    for number, words in _WORDS_OF_NUMBERS.items():
        text = text.replace(number, words)
    return text


def _default(setting: BrokerSetting) -> str:
    text = setting.default
    if text is None:
        return "none"
    if text == str(INT64_MAX):
        return "never" if setting.type is INTERVAL else "no bound"
    return f"`{text}`" if text else "empty"


def page() -> str:
    """The whole page."""
    return "\n".join((_PREAMBLE, _OF_TOPICS + "".join(_topics()), _OF_BROKERS + "".join(_brokers())))


def _topics() -> Iterator[str]:
    for setting in TOPIC_SETTINGS.values():
        cells = (
            f"`{setting.name}`",
            _legal(setting),
            f"`{setting.broker.name}`",
            _default(setting.broker),
            setting.documentation,
        )
        yield f"| {' | '.join(cells)} |\n"


def _brokers() -> Iterator[str]:
    for setting in BROKER_SETTINGS.values():
        cells = (
            f"`{setting.name}`",
            _legal(setting),
            _default(setting),
            setting.scope.value,
            setting.documentation,
        )
        yield f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())

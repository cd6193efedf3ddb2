# %% [markdown]
# # One failure, explored
#
# Apache Kafka before
# [KIP-966](https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas) could lose writes
# that it had acknowledged with `acks=all`. The simulator has that version of the protocol as generation `K3`. This
# notebook finds a seed that shows such a loss, and follows the lost record through the data.
#
# Everything here is public: `harrow.simulate`, `harrow.check`, `harrow.to_frame` and the data frames of their
# results.

# %%
import tempfile
from pathlib import Path

import pandas as pd

import harrow

pd.set_option("display.width", 110, "display.max_columns", 12, "display.max_colwidth", 60)

# %% [markdown]
# ## A few seeds
#
# A seed decides a whole test: the configuration, the faults and the order of all events. Each takes about a second,
# and is the same on every machine. `to_frame` makes one row of each result.

# %%
results = [harrow.simulate(seed, generation="K3") for seed in range(1, 13)]
table = harrow.to_frame(results)
table.groupby("verdict").size()

# %%
table[table.verdict == "invalid"][["seed", "property", "reason", "faults"]]

# %% [markdown]
# Properties are named in `docs/protocol.md`; a name like `lost-acked-write` is an anomaly that the clients' history
# shows. The first seed with that one is the failure of this notebook.

# %%
LOST = "lost-acked-write"
failure = next(result for result in results if any(finding.property_id == LOST for finding in result.findings))
print(failure.command)
for finding in failure.findings:
    print(finding.layer, finding, sep=": ")

# %% [markdown]
# What the cluster was, as far as durability depends on it. A record that is in `min_insync_replicas` replicas must
# survive the loss of one fewer of them.

# %%
{name: failure.configuration[name] for name in ("brokers", "replication_factor", "min_insync_replicas", "acks")}

# %% [markdown]
# ## What the checkers say
#
# `simulate` looks at each step and at the clients' history. The checkers on Spark judge a run as they judge one of
# a real cluster, from its stored history. `store` writes that, `check` judges it.

# %%
run = failure.store(Path(tempfile.mkdtemp()) / "one-failure")
checked = harrow.check(run)
print(checked.verdict, dict(checked.violations))
for incident in checked.incidents:
    print("-", incident.headline)

# %% [markdown]
# Each anomaly is a row, with the record that it is about.

# %%
anomalies = checked.frame("anomalies").sort_values(["anomaly", "topic", "partition", "offset"], ignore_index=True)
losses = anomalies[anomalies.anomaly == LOST]
print(len(losses), "acknowledged writes were lost; the first of them:")
losses[["anomaly", "topic", "partition", "offset", "value", "within_contract"]].head(5)

# %% [markdown]
# ## The record that was lost
#
# Who sent it, and when was it acknowledged? `sends` has the records, `operations` the requests; times are
# nanoseconds of the run's own clock.

# %%
lost = losses.iloc[0]
sends = failure.frame("sends").merge(failure.frame("operations"), on="op")
sent = sends[(sends.value == lost.value) & (sends.kind == "send")]
sent.assign(invoked_s=sent.invoked_ns / 1e9, completed_s=sent.completed_ns / 1e9)[
    ["process", "status", "acks", "partition", "offset", "invoked_s", "completed_s"]
]

# %% [markdown]
# Status `ok` is an acknowledgement: from then on the record had to be there. Which replicas hold it after the run, and
# how far does each log of its partition reach?

# %%
logs = failure.frame("logs")
here = logs[(logs.topic == lost.topic) & (logs.partition == lost.partition)]
print("replicas that hold it:", sorted(set(here[here.value == lost.value].broker)))
here.groupby("broker").agg(records=("offset", "size"), last=("offset", "max"), epoch=("leader_epoch", "max"))

# %% [markdown]
# ## What happened in between
#
# The faults that took hold after the record was sent. A loss like this one needs two things: the in-sync set
# shrinks to one replica, and that replica loses what it had not yet synced.

# %%
faults = failure.frame("faults")
after = faults[(faults.ended_ns >= sent.invoked_ns.iloc[0]) & faults.took_hold].sort_values("started_ns")
shown = after.assign(targets=after.targets.map(list), started_s=after.started_ns / 1e9, ended_s=after.ended_ns / 1e9)
shown[["kind", "targets", "started_s", "ended_s"]].head(10)

# %% [markdown]
# ## The same seeds after the repair
#
# KIP-966 keeps the replicas that left the in-sync set last as candidates, and elects no replica that may lack what
# is committed. `K5` is that version. A seed is another simulation then, so the comparison is over all of them.

# %%
after_repair = harrow.to_frame(harrow.simulate(seed, generation="K5") for seed in range(1, 13))
pd.DataFrame({"K3": table.verdict.value_counts(), "K5": after_repair.verdict.value_counts()}).fillna(0).astype(int)

# %% [markdown]
# ## From here
#
# The command below runs the failure again, makes it as small as it gets, and writes a report with the steps that
# led to it, as a chart of messages.

# %%
print(failure.explain_command)

  // What the time line shows: which items the filters leave, in which rows and lanes, and how each row is drawn.
  const CHARACTER = 6.6, LANE = 20, STRIP = 15, CURVE = 84, GAP = 8, LEADERS_MAX = 8;
  const CURVES = [["writes ok", "ok"], ["reads ok", "read"], ["fail", "fail"], ["info", "info"]];

  function itemsOf(data) {
    const faults = data.faults.map((one, index) => ({ ...one, type: "fault", key: `fault-${one.number}-${index}`, at: one.start }));
    const incidents = data.incidents.filter((one) => one.at !== null)
      .map((one) => ({ ...one, type: "incident", key: `incident-${one.number}` }));
    const anomalies = data.anomalies.map((one, index) => ({ ...one, type: "anomaly", key: `anomaly-${index}` }));
    return [...faults, ...incidents, ...anomalies].sort((one, other) => one.at - other.at);
  }

  function passes(item, chosen) {
    const [side, kind] = chosen.kind;
    const nodes = item.type === "fault" ? item.targets : item.nodes;
    if (chosen.node !== null && !nodes.includes(chosen.node)) return false;
    if (chosen.partition !== null) {
      if (item.type === "incident" && item.partitions.length && !item.partitions.includes(chosen.partition)) return false;
      if (item.type === "anomaly" && item.partition !== chosen.partition) return false;
    }
    if (side === "fault" && item.type === "fault") return item.kind === kind;
    if (side === "anomaly" && item.type === "anomaly") return item.name === kind;
    return true;
  }

  // Faults by target, each in the first lane of its target that is free while it lasts.
  function faultRows(items, data) {
    const targets = new Map();
    for (const fault of items.filter((one) => one.type === "fault")) {
      for (const target of fault.targets.length ? fault.targets : [-1]) {
        if (!targets.has(target)) targets.set(target, []);
        const lanes = targets.get(target);
        const end = fault.end === null ? data.span[1] : fault.end;
        const free = lanes.find((lane) => lane.end <= fault.start);
        if (free) { free.faults.push(fault); free.end = end; } else lanes.push({ faults: [fault], end });
      }
    }
    return [...targets].sort((one, other) => one[0] - other[0]);
  }

  // Marks whose labels would collide become one mark, which names them all.
  function gathered(marks, x, label) {
    const groups = [];
    for (const mark of marks) {
      const last = groups[groups.length - 1];
      if (last && x(mark.at) < last.x + 22 + CHARACTER * label(last.items).length) last.items.push(mark);
      else groups.push({ x: x(mark.at), items: [mark] });
    }
    return groups;
  }

  // Operations that pass the filters, added up over `wide` bins each: a value of each curve, and the slowest write.
  function curvesOf(cube, chosen, from, to, wide) {
    const size = Math.max(1, Math.ceil((to - from) / wide));
    const sums = CURVES.map(() => new Float64Array(size));
    const slowest = new Float64Array(size).fill(-1);
    const names = cube.kinds;
    for (const group of cube.groups) {
      const kind = names[group.kind], status = cube.statuses[group.status];
      if (chosen.node !== null && group.node !== chosen.node) continue;
      if (chosen.partition !== null && group.partition !== chosen.partition) continue;
      if (chosen.client !== null && group.client !== chosen.client) continue;
      const only = chosen.kind[0] === "operation";
      if (only && kind !== chosen.kind[1]) continue;
      const curve = status === "fail" ? 2 : status === "info" ? 3 : kind === "send" ? 0 : kind === "poll" || only ? 1 : -1;
      let bin = 0;
      for (let index = 0; index < group.bins.length; index += 1) {
        bin += group.bins[index];
        if (bin < from || bin >= to) continue;
        const slot = Math.floor((bin - from) / wide);
        if (curve >= 0) sums[curve][slot] += group.counts[index];
        if (group.slowest) slowest[slot] = Math.max(slowest[slot], group.slowest[index]);
      }
    }
    return { sums, slowest, size };
  }

  function roundStep(span, steps) {
    const rough = span / steps, power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  }

  const seconds = (ms, step) => `${(ms / 1000).toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / 1000)))))} s`;

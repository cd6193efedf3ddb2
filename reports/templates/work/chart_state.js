  // What each node knows of the partitions at a step of the story, as a table; what the step changed is marked.
  const EPOCHS = 6;

  // State after each step, found by going through the changes from the beginning: lane → partition → standing.
  function stateAt(story, until) {
    const nodes = new Map(Object.entries(story.before).map(([lane, state]) => [Number(lane), { ...state }]));
    const gone = new Set();
    for (let index = 0; index <= until; index += 1) {
      const step = story.steps[index];
      if (step.ended) { gone.add(step.lane); continue; }
      if (step.state || gone.has(step.lane)) gone.delete(step.lane);
      if (step.state) nodes.set(step.lane, { ...nodes.get(step.lane), ...step.state });
    }
    return { nodes, gone };
  }

  function logBar(standing, longest) {
    const bar = made("span", { class: "log-bar", "aria-hidden": "true" });
    for (const [epoch, from, to] of standing.log || []) {
      const part = made("i", { class: `epoch-${epoch % EPOCHS}` });
      part.style.left = `${(100 * from) / longest}%`;
      part.style.width = `${(100 * (to - from)) / longest}%`;
      bar.append(part);
    }
    if (standing.high_watermark !== undefined && standing.high_watermark >= 0) {
      const mark = made("b", {});
      mark.style.left = `${(100 * standing.high_watermark) / longest}%`;
      bar.append(mark);
    }
    return bar;
  }

  const spans = (standing) => (standing.log === undefined ? "–" : standing.log
    .map(([epoch, from, to]) => `${from}${to - from > 1 ? `–${to - 1}` : ""} of epoch ${epoch}`).join(", ") || "empty");
  const CELLS = [
    ["role", (one) => `${one.role || ""}${one.epoch === undefined || one.epoch < 0 ? "" : `, epoch ${one.epoch}`}`],
    ["high watermark", (one) => (one.high_watermark === undefined ? "–" : String(one.high_watermark))],
    ["ISR", (one) => (one.isr === undefined ? "–" : `[${one.isr.join(", ")}]`)],
    ["ELR", (one) => (one.elr === undefined ? "–" : `[${one.elr.join(", ")}]`)],
  ];

  function stateTable(story, index, names) {
    const now = stateAt(story, index), before = stateAt(story, index - 1), lane = story.steps[index].lane;
    const partitions = [...new Set([...now.nodes.values()].flatMap((one) => Object.keys(one)))].sort();
    if (!partitions.length) return [made("p", {}, "No node knows a partition yet.")];
    const changed = new Set(Object.keys(story.steps[index].state || {}));
    const order = [...partitions.filter((one) => changed.has(one)), ...partitions.filter((one) => !changed.has(one))];
    return order.slice(0, 4).map((partition) => {
      const rows = [...now.nodes].filter(([, state]) => state[partition]).sort((one, other) => one[0] - other[0]);
      const longest = Math.max(1, ...rows.map(([, state]) => Math.max(state[partition].log_end || 0, state[partition].high_watermark || 0)));
      const body = made("tbody", {}, ...rows.map(([node, state]) => {
        const standing = state[partition], was = ((before.nodes.get(node) || {})[partition]) || {};
        const mine = node === lane && changed.has(partition);
        const ended = now.gone.has(node);
        const cell = (text, old) => made("td", mine && text !== old ? { class: "changed" } : {}, text, ...(mine && text !== old ? [made("small", {}, ` was ${old}`)] : []));
        const log = cell(spans(standing), spans(was));
        if (standing.log) log.prepend(logBar(standing, longest));
        return made("tr", ended ? { class: "gone" } : {}, made("th", { scope: "row" }, names.get(node) || String(node), ...(ended ? [made("small", {}, " down; last known")] : [])),
          cell(CELLS[0][1](standing), CELLS[0][1](was)), log, ...CELLS.slice(1).map(([, text]) => cell(text(standing), text(was))));
      }));
      const head = made("thead", {}, made("tr", {}, ...["node", CELLS[0][0], "log: offsets by epoch", ...CELLS.slice(1).map(([name]) => name)].map((text) => made("th", { scope: "col" }, text))));
      return made("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `State of ${partition}` }, made("table", {}, made("caption", {}, partition), head, body));
    });
  }

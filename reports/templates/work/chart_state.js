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

  // A bar for the log from offset `first` to `longest`.
  function logBar(standing, first, longest, lost) {
    const bar = made("span", { class: "log-bar", "aria-hidden": "true" });
    const place = (offset) => (100 * (Math.max(offset, first) - first)) / (longest - first);
    const add = (kind, from, to) => {
      const part = made("i", { class: kind });
      part.style.left = `${place(from)}%`;
      part.style.width = `${place(to) - place(from)}%`;
      bar.append(part);
    };
    for (const [epoch, from, to] of standing.log || []) add(`epoch-${epoch % EPOCHS}`, from, to);
    if (!standing.log) add("sampled", standing.log_start || 0, standing.log_end);
    if (lost) add("lost", lost[0], lost[1] + 1);
    if (standing.high_watermark !== undefined && standing.high_watermark >= 0) {
      const mark = made("b", {});
      mark.style.left = `${place(standing.high_watermark)}%`;
      bar.append(mark);
    }
    return bar;
  }

  const offsets = (from, to) => (to > from ? `${from}${to - from > 1 ? `–${to - 1}` : ""}` : "empty");
  const spans = (standing) => (standing.log === undefined ? (standing.log_end === undefined ? "–" : offsets(standing.log_start || 0, standing.log_end)) : standing.log
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
      const ends = rows.flatMap(([, state]) => [state[partition].log_end || 0, state[partition].high_watermark || 0]);
      const longest = Math.max(1, ...ends, story.lost ? story.lost[1] + 1 : 0);
      // Samples have no epochs to draw, so that only the ends matter, where the replicas differ.
      const lowest = Math.min(longest - 1, ...ends, story.lost ? story.lost[0] : longest);
      const first = rows.some(([, state]) => state[partition].log) ? 0 : Math.max(0, lowest - (longest - lowest));
      const body = made("tbody", {}, ...rows.map(([node, state]) => {
        const standing = state[partition], was = ((before.nodes.get(node) || {})[partition]) || {};
        const mine = node === lane && changed.has(partition);
        const ended = now.gone.has(node);
        const cell = (text, old) => made("td", mine && text !== old ? { class: "changed" } : {}, text, ...(mine && text !== old ? [made("small", {}, ` was ${old}`)] : []));
        const log = cell(spans(standing), spans(was));
        if (standing.log || standing.log_end !== undefined) log.prepend(logBar(standing, first, longest, story.lost));
        return made("tr", ended ? { class: "gone" } : {}, made("th", { scope: "row" }, names.get(node) || String(node), ...(ended ? [made("small", {}, ` ${story.words.gone}`)] : [])),
          cell(CELLS[0][1](standing), CELLS[0][1](was)), log, ...CELLS.slice(1).map(([, text]) => cell(text(standing), text(was))));
      }));
      const head = made("thead", {}, made("tr", {}, ...["node", CELLS[0][0], story.words.log, ...CELLS.slice(1).map(([name]) => name)].map((text) => made("th", { scope: "col" }, text))));
      return made("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `State of ${partition}` }, made("table", {}, made("caption", {}, partition, ...(first ? [made("small", {}, ` bars: offsets ${first}–${longest - 1}`)] : [])), head, body));
    });
  }

  // The message chart: the steps of a story, walked through by keys, with folds, causes and a search.
  // `chart` is the id of its element, which those of its parts begin with.
  function messageChart(story, chart) {
    const part = (name) => byId(`${chart}-${name}`), words = story.words;
    const list = part("steps"), state = part("state"), said = part("said"), search = part("search");
    const names = new Map(story.lanes.map(([lane, name]) => [lane, name]));
    const column = new Map(story.lanes.map(([lane], index) => [lane, index]));
    const isViolation = (step) => step.text.startsWith("VIOLATION"); // which is nobody's step
    const opened = new Set();
    const last = story.violation === null ? story.steps.length - 1 : story.violation;
    let current = last, chain = new Set(), onlyChain = false, rows = [];

    function causes(index) {
      const found = [];
      for (let at = index; at !== undefined && at !== null && !found.includes(at); at = story.steps[at].cause) found.push(at);
      return found;
    }

    // Rows: steps, and folds that stand for several. A step on the way to the current one is never folded.
    function rowsNow() {
      const found = [];
      let fold = null;
      const close = () => { if (fold) found.push(fold); fold = null; };
      story.steps.forEach((step, index) => {
        if (onlyChain && !chain.has(index)) return;
        const startup = index < story.begins, id = startup ? "start-up" : `noise-${fold && !fold.startup ? fold.first : index}`;
        const folds = !chain.has(index) && index !== current && (startup || step.noise);
        for (const [kind, number] of Object.entries(step.folded || {})) {
          if (onlyChain) break;
          if (!fold) fold = { id, startup, first: index, steps: [], more: {} };
          fold.more[kind] = (fold.more[kind] || 0) + number;
        }
        if (!folds) { close(); found.push({ index }); return; }
        if (!fold) fold = { id, startup, first: index, steps: [], more: {} };
        fold.steps.push(index);
        if (index + 1 === story.begins) close();
      });
      close();
      return found.flatMap((row) => (row.id && opened.has(row.id) ? [row, ...row.steps.map((index) => ({ index, inside: true }))] : [row]));
    }

    function foldText(row) {
      const counts = { ...row.more };
      for (const index of row.steps) {
        const kind = row.startup ? "" : story.steps[index].noise;
        counts[kind] = (counts[kind] || 0) + 1;
      }
      const parts = Object.entries(counts).filter(([kind]) => kind).sort((one, other) => other[1] - one[1]).map(([kind, number]) => `${kind}: ${number.toLocaleString("en")}`);
      if (row.startup) return `start-up: ${plural(row.steps.length, "step")}`;
      return parts.join(", ");
    }

    function lanePicture(step) {
      const wide = 100 / story.lanes.length, x = (lane) => `${(column.get(lane) + 0.5) * wide}%`;
      const svg = drawn("svg", { class: "lanes", "aria-hidden": "true", focusable: "false" });
      for (const [lane] of story.lanes) drawn("line", { class: "lane", x1: x(lane), x2: x(lane), y1: 0, y2: "100%" }, svg);
      const cell = made("span", { class: "cell" }, svg);
      if (!step) return cell;
      if (step.source !== undefined && step.source !== step.lane) {
        drawn("line", { class: `arrow ${step.message}`, x1: x(step.source), x2: x(step.lane), y1: 13, y2: 13 }, svg);
        const way = column.get(step.source) < column.get(step.lane) ? -1 : 1, lost = step.message === "lost";
        const middle = `${((column.get(step.source) + column.get(step.lane)) / 2 + 0.5) * wide}%`;
        const tip = drawn("svg", { x: lost ? middle : x(step.lane), y: 13, overflow: "visible" }, svg);
        drawn("path", { class: `tip ${step.message}`, d: lost ? "M-4 -4l8 8m0 -8l-8 8" : step.message === "answer" ? `M${7 * way} -4l${-7 * way} 4l${7 * way} 4` : `M0 0l${7 * way} -4v8z` }, tip);
      } else drawn("circle", { class: "dot", cx: x(step.lane), cy: 13, r: 4.5 }, svg);
      return cell;
    }

    const idOf = (row) => (row.id ? `${chart}-fold-${row.id}` : `${chart}-step-${row.index}`);
    function rowElement(row) {
      if (row.id) {
        const open = opened.has(row.id);
        const element = made("div", { class: "step fold", role: "option", id: idOf(row), "aria-selected": "false" },
          made("span", { class: "at" }), lanePicture(null), made("span", { class: "what" }, `${open ? "▾" : "▸"} ${foldText(row)}`));
        element.addEventListener("click", () => { toggle(row.id); });
        return element;
      }
      const step = story.steps[row.index];
      const kind = [row.index === current && "current", chain.has(row.index) && "chain", step.noise && "noise", step.lane === 0 && "fault",
        isViolation(step) && "violated", row.inside && "inside"].filter(Boolean).join(" ");
      const ends = [names.get(step.source), names.get(step.lane)];
      const who = step.source === undefined ? names.get(step.lane) : (step.message === "lost" ? ends.reverse() : ends).join(" to ");
      const element = made("div", { class: `step ${kind}`, role: "option", id: idOf(row), "aria-selected": String(row.index === current) },
        made("span", { class: "at" }, (step.at_us / 1e6).toFixed(3)), lanePicture(step),
        made("span", { class: "what" }, ...(isViolation(step) ? [] : [made("span", { class: "who" }, `${who}: `)]), step.text, ...(step.state ? [made("span", { class: "delta" }, " state")] : [])));
      element.addEventListener("click", () => choose(row.index));
      return element;
    }

    function show(follow = true) {
      rows = rowsNow();
      list.replaceChildren(...rows.map(rowElement));
      list.setAttribute("aria-activedescendant", `${chart}-step-${current}`);
      const row = part(`step-${current}`);
      if (row && follow) {
        const over = row.offsetTop - list.scrollTop, head = 40;
        if (over < head || over > list.clientHeight - 3 * head) list.scrollTop = row.offsetTop - list.clientHeight / 2;
      }
    }

    function choose(index, { keepChain = false } = {}) {
      current = Math.max(0, Math.min(story.steps.length - 1, index));
      if (!keepChain || !chain.has(current)) chain = new Set(causes(current));
      show();
      const step = story.steps[current], cause = step.cause, who = isViolation(step) ? "" : `, ${names.get(step.lane)}`, content = [made("strong", {}, `${(step.at_us / 1e6).toFixed(6)} s${who}: `), step.text];
      said.replaceChildren(made("p", {}, ...content), made("p", {}, ...(cause === undefined || cause === null
        ? [words.no_cause] : [link(cause, words.before)])), ...effects());
      state.replaceChildren(...stateTable(story, current, names));
    }
    function effects() {
      const found = story.steps.flatMap((step, index) => (step.cause === current && !step.noise ? [index] : [])).slice(0, 4);
      return found.map((index) => made("p", {}, link(index, words.after)));
    }
    function link(index, before) {
      const step = story.steps[index];
      const button = made("button", { type: "button", class: "to-step" }, shortened(`${(step.at_us / 1e6).toFixed(3)} ${isViolation(step) ? "" : `${names.get(step.lane)}: `}${step.text}`, 110));
      button.addEventListener("click", () => { choose(index, { keepChain: true }); list.focus(); });
      return made("span", {}, before, button);
    }

    function toggle(id) {
      if (opened.has(id)) opened.delete(id); else opened.add(id);
      show(false);
    }
    function move(by) {
      const order = rows.filter((row) => row.index !== undefined).map((row) => row.index);
      choose(order[Math.max(0, Math.min(order.length - 1, order.indexOf(current) + by))], { keepChain: true });
    }
    function back() {
      const cause = story.steps[current].cause;
      if (cause !== undefined && cause !== null) choose(cause, { keepChain: true });
    }
    function forth() {
      const on = [...chain].sort((one, other) => one - other), next = on.find((index) => index > current);
      if (next !== undefined) choose(next, { keepChain: true });
    }
    function unfold() {
      const folds = rowsNow().filter((row) => row.id);
      if (opened.size) opened.clear(); else folds.forEach((row) => opened.add(row.id));
      part("unfold").setAttribute("aria-pressed", String(opened.size > 0));
      show();
    }
    function only() {
      onlyChain = !onlyChain;
      if (onlyChain) chain = new Set(causes(current));
      part("only").setAttribute("aria-pressed", String(onlyChain));
      show();
    }
    function seek(by) {
      const words = search.value.trim().toLowerCase();
      const hits = words ? story.steps.flatMap((step, index) => (`${names.get(step.lane)} ${step.text}`.toLowerCase().includes(words) ? [index] : [])) : [];
      const next = by > 0 ? hits.find((index) => index > current) ?? hits[0] : hits.findLast((index) => index < current) ?? hits[hits.length - 1];
      if (next !== undefined) choose(next);
      part("hits").textContent = words ? (hits.length ? `${hits.indexOf(current) + 1} of ${hits.length}` : "not found") : "";
    }

    const keys = {
      j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(15), PageUp: () => move(-15),
      Home: () => choose(rows.find((row) => row.index !== undefined).index), End: () => choose(last), c: back, ArrowLeft: back, e: forth, ArrowRight: forth,
      f: unfold, o: only, "/": () => search.focus(), n: () => seek(1), N: () => seek(-1),
    };
    list.addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); seek(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") list.focus();
    });
    for (const [id, action] of [["down", keys.j], ["up", keys.k], ["cause", back], ["effect", forth], ["end", keys.End], ["unfold", unfold], ["only", only]]) {
      part(id).addEventListener("click", action);
    }
    part("lanes").replaceChildren(made("span", { class: "at" }, "s"), made("span", { class: "heads" }, ...story.lanes.map(([, name, brief]) => made("abbr", { title: name }, brief))), made("span", { class: "what" }, "what happened"));
    byId(chart).style.setProperty("--lanes", String(story.lanes.length));
    byId(chart).hidden = false;
    byId(chart).closest("details")?.addEventListener("toggle", () => show());
    choose(last);
  }

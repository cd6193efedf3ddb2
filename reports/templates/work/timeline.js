  // The time line: zoom, pan, filters, marks that can be pointed at, walked through by keys, and followed.
  function timeLine(data) {
    const holder = byId("workbench-chart"), details = byId("workbench-details"), readout = byId("workbench-readout");
    const everything = itemsOf(data), [first, last] = data.span;
    const view = { from: first, to: last };
    const chosen = { node: null, partition: null, client: null, kind: ["", ""] };
    let current = null, width = 0, left = 0, wanted = false, built = null;

    const logs = nodeLogs(data, (ms) => cross(x(ms)));

    const x = (ms) => left + ((ms - view.from) / (view.to - view.from)) * (width - left - 8);
    const timeAt = (px) => view.from + ((px - left) / Math.max(1, width - left - 8)) * (view.to - view.from);
    const shown = () => everything.filter((item) => passes(item, chosen));

    function look(from, to) {
      const span = Math.min(last - first, Math.max((last - first) / 20000, 0.05, to - from));
      view.from = Math.max(first, Math.min(last - span, from));
      view.to = view.from + span;
      redraw();
    }
    function zoom(factor, around = (view.from + view.to) / 2) {
      look(around - (around - view.from) * factor, around + (view.to - around) * factor);
    }
    const pan = (share) => look(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

    function redraw() {
      if (wanted) return;
      wanted = true;
      requestAnimationFrame(() => { wanted = false; draw(); });
    }

    function draw() {
      width = holder.clientWidth;
      left = width < 560 ? 76 : 120;
      const focused = holder.contains(document.activeElement) && document.activeElement !== holder;
      const svg = drawn("svg", { width, role: "group", "aria-label": "Time line" });
      const clip = drawn("clipPath", { id: "workbench-inside" }, drawn("defs", {}, svg));
      const inside = drawn("rect", { x: left, y: 0, width: Math.max(0, width - left) }, clip);
      const layer = drawn("g", { "clip-path": "url(#workbench-inside)" });
      let y = 22;
      const name = (text, at, more = "") => drawn("text", { x: 2, y: at, class: `row-name ${more}` }, svg,
        shortened(text, Math.floor((left - 6) / 6.2)));
      const rule = () => drawn("line", { class: "rule-line", x1: 0, x2: width, y1: y + GAP / 2 - 1, y2: y + GAP / 2 - 1 }, svg);
      const items = shown();

      for (const [target, lanes] of faultRows(items, data)) {
        name(target === -1 ? "no target" : (data.nodes.find(([id]) => id === target) || [0, `node ${target}`])[1], y + 14);
        for (const lane of lanes) { drawLane(layer, lane.faults, y); y += LANE; }
        rule(); y += GAP;
      }
      for (const [text, type, allowed] of [["incidents", "incident", null], ["violations", "anomaly", false], ["allowed", "anomaly", true]]) {
        const marks = items.filter((item) => item.type === type && (allowed === null || item.allowed === allowed));
        if (!marks.length) continue;
        name(text, y + 14);
        drawMarks(layer, marks, y);
        y += LANE;
      }
      rule(); y += GAP;
      const strips = data.leaders.filter((one) => chosen.partition === null || one.partition === chosen.partition);
      for (const strip of strips.slice(0, LEADERS_MAX)) {
        name(data.partitions[strip.partition], y + 12, "small");
        drawLeaders(layer, strip, y);
        y += STRIP + 3;
      }
      if (strips.length > LEADERS_MAX) { name(`${strips.length - LEADERS_MAX} more: filter`, y + 12, "small"); y += STRIP; }
      y += GAP + 8;
      y = drawCurves(svg, layer, y, name);
      drawAxis(svg, layer, y);
      svg.append(layer);
      drawn("line", { class: "cross", y1: 18, y2: y, visibility: "hidden" }, svg);
      svg.setAttribute("height", y + 6);
      inside.setAttribute("height", y + 6);
      built = svg;
      holder.replaceChildren(svg);
      logs(view.from, view.to, chosen.node, current ? current.at : null);
      if (focused && current) elementOf(current)?.focus({ preventScroll: true });
    }

    function drawLane(layer, faults, y) {
      faults.forEach((fault, index) => {
        const from = x(fault.start), to = Math.max(from + 3, x(fault.end === null ? last : fault.end));
        if (to < left - 40 || from > width) return;
        const group = mark(layer, [fault], `bar ${fault.family}${fault.took_hold ? "" : " idle"}`);
        drawn("rect", { x: from, y: y + 1, width: to - from, height: LANE - 4, rx: 2 }, group);
        const begin = Math.max(from, left), after = faults[index + 1] ? x(faults[index + 1].start) : width;
        const long = `${fault.number} ${fault.kind}${fault.took_hold ? "" : " (did not take effect)"}`;
        const label = [long, String(fault.number)].map((text) => [text, 8 + CHARACTER * text.length])
          .map(([text, room]) => (room <= Math.min(to, width) - begin && fault.took_hold ? [text, begin + 4, ""]
            : to >= left && room <= Math.min(after, width) - to ? [text, to + 4, "beside"] : null)).find(Boolean);
        if (label) drawn("text", { x: label[1], y: y + 14, class: label[2] }, group, label[0]);
      });
    }

    function drawMarks(layer, marks, y) {
      const label = (items) => (items[0].type === "incident"
        ? (items.length > 3 ? `${items[0].number} and ${items.length - 1} more` : items.map((one) => one.number).join(", "))
        : String(items.reduce((sum, one) => sum + one.count, 0)));
      for (const { x: at, items } of gathered(marks, x, label)) {
        if (at < left - 8 || at > width) continue;
        const group = mark(layer, items, `${items[0].type} ${items.every((one) => one.allowed) ? "allowed" : "violation"}`);
        if (items.length > 1) group.setAttribute("aria-label", `${label(items)}: ${group.getAttribute("aria-label")}`);
        drawn("rect", { class: "reach", x: at - 8, y, width: 22 + CHARACTER * label(items).length, height: LANE }, group);
        const shape = items[0].type === "incident" ? `M${at - 6} ${y + 4}h12l-6 11z`
          : items[0].allowed ? `M${at - 5} ${y + 10}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z`
            : `M${at - 5} ${y + 5}l10 10m0 -10l-10 10`;
        drawn("path", { d: shape }, group);
        if (items.length > 1 || items[0].type === "incident" || items[0].count > 1) {
          const beside = at + 9 + CHARACTER * label(items).length > width; // no room on the right
          drawn("text", beside ? { x: at - 9, y: y + 14, "text-anchor": "end" } : { x: at + 9, y: y + 14 }, group, label(items));
        }
      }
    }

    function drawLeaders(layer, strip, y) {
      for (const [from, to, leader, epoch] of strip.led) {
        const begin = Math.max(left, x(from)), wide = Math.min(width, x(to)) - begin;
        if (wide <= 0) continue;
        const group = drawn("g", { class: `led ${leader < 0 ? "nobody" : `by-${(leader + 7) % 8}`}${chosen.node !== null && chosen.node !== leader ? " other" : ""}` }, layer);
        drawn("rect", { x: begin, y, width: wide, height: STRIP }, group);
        const text = leader < 0 ? "no leader seen" : `${leader}, epoch ${epoch}`;
        drawn("title", {}, group, leader < 0 ? text : `broker ${leader} leads in epoch ${epoch}`);
        const fitting = [text, leader < 0 ? "" : String(leader)].find((one) => one && 8 + CHARACTER * one.length < wide);
        if (fitting) drawn("text", { x: begin + 4, y: y + 12 }, group, fitting);
      }
    }

    function drawCurves(svg, layer, top, name) {
      const cube = data.operations;
      const from = Math.max(0, Math.floor((view.from - cube.start_ms) / cube.width_ms));
      const to = Math.min(cube.bins, Math.ceil((view.to - cube.start_ms) / cube.width_ms) + 1);
      const wide = Math.max(1, Math.ceil((to - from) / Math.max(20, (width - left) / 4)));
      const curves = curvesOf(cube, chosen, from, to, wide);
      const at = (slot) => x(cube.start_ms + (from + slot * wide) * cube.width_ms);
      const each = (wide * cube.width_ms) / 1000;
      const most = Math.max(1e-9, ...curves.sums.map((sum) => Math.max(...sum)));
      name("per second", top + 12);
      drawn("text", { x: left - 6, y: top + 26, class: "scale" }, svg, (most / each).toLocaleString("en", { maximumFractionDigits: 1 }));
      CURVES.forEach(([, kind], number) => {
        const level = (value) => top + CURVE - (value / most) * (CURVE - 12);
        let path = `M${at(0)} ${top + CURVE}`;
        curves.sums[number].forEach((value, slot) => { path += `V${level(value).toFixed(1)}H${at(slot + 1).toFixed(1)}`; });
        drawn("path", { class: `curve ${kind}`, d: `${path}V${top + CURVE}` }, layer);
      });
      const floor = top + CURVE + GAP + 6 + CURVE * 0.7, slow = Math.max(10, ...curves.slowest);
      name("slowest write", floor - CURVE * 0.7 + 14);
      drawn("text", { x: left - 6, y: floor - CURVE * 0.7 + 28, class: "scale" }, svg, `${Math.round(slow).toLocaleString("en")} ms`);
      let slowest = "";
      curves.slowest.forEach((value, slot) => {
        if (value < 0) return;
        const level = floor - (Math.log10(1 + value) / Math.log10(1 + slow)) * (CURVE * 0.6);
        slowest += `M${at(slot).toFixed(1)} ${level.toFixed(1)}H${Math.max(at(slot) + 1, at(slot + 1)).toFixed(1)}`;
      });
      drawn("path", { class: "curve ok plain", d: slowest }, layer);
      for (const y of [top + CURVE, floor]) drawn("line", { class: "rule-line", x1: left, x2: width, y1: y, y2: y }, svg);
      tell = (ms) => {
        const slot = Math.floor(((ms - cube.start_ms) / cube.width_ms - from) / wide);
        if (slot < 0 || slot >= curves.size) return "";
        const parts = CURVES.map(([text], number) => `${(curves.sums[number][slot] / each).toLocaleString("en", { maximumFractionDigits: 1 })} ${text}`);
        return `${parts.join(", ")} a second${curves.slowest[slot] >= 0 ? `; slowest write ${curves.slowest[slot]} ms` : ""}`;
      };
      return floor + 4;
    }
    let tell = () => "";

    function drawAxis(svg, layer, bottom) {
      const step = roundStep(view.to - view.from, Math.max(2, (width - left) / 90));
      for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
        drawn("line", { class: "tick-line", x1: x(at), x2: x(at), y1: 18, y2: bottom }, svg);
        if (x(at) < width - 40) drawn("text", { x: x(at), y: 12, class: "tick" }, svg, seconds(at, step));
      }
      let free = left;
      for (const [phase, at] of data.phases) {
        if (at < view.from || at > view.to || phase === "main" || phase === "set-up") continue;
        drawn("line", { class: "phase-line", x1: x(at), x2: x(at), y1: 18, y2: bottom }, layer);
        if (x(at) > free && x(at) + 8 * phase.length < width) { drawn("text", { x: x(at) + 3, y: bottom - 4, class: "tick begin" }, layer, phase); free = x(at) + 9 * phase.length; }
      }
    }

    function mark(layer, items, kind) {
      const on = current && items.some((item) => item.key === current.key);
      const group = drawn("g", {
        class: `mark ${kind}${on ? " current" : ""}`, role: "button", tabindex: on ? "0" : "-1",
        "aria-label": items.map(sentence).slice(0, 4).join("; ") + (items.length > 4 ? `; and ${items.length - 4} more` : ""),
        "data-keys": items.map((item) => item.key).join(" "),
      }, layer);
      group.addEventListener("pointerenter", () => describe(items));
      group.addEventListener("focus", () => describe(items));
      group.addEventListener("click", () => { current = items[0]; describe(items); redraw(); });
      return group;
    }

    function sentence(item) {
      if (item.type === "fault") return `Fault ${item.number}: ${item.kind} on ${item.who}, ${item.when}${item.took_hold ? "" : ", did not take effect"}`;
      if (item.type === "incident") return `Incident ${item.number}, ${item.when}: ${item.headline}`;
      return `${item.name}: ${plural(item.count, item.allowed ? "anomaly within the contract" : "violation", item.allowed ? "anomalies within the contract" : "violations")} in ${item.where}, ${item.when}`;
    }

    function describe(items) {
      details.replaceChildren(...items.slice(0, 6).map((item) => {
        const links = [];
        const link = (to, text) => byId(to) && links.push(made("a", { href: `#${to}` }, text));
        if (item.type === "fault") { link(`fault-${item.number}`, `fault ${item.number}`); item.incidents.forEach((one) => link(`incident-${one}`, `incident ${one}`)); }
        if (item.type === "incident") { link(`incident-${item.number}`, `incident ${item.number}`); item.faults.forEach((one) => link(`fault-${one}`, `fault ${one}`)); }
        if (item.type === "anomaly") { item.incidents.forEach((one) => link(`incident-${one}`, `incident ${one}`)); item.records.forEach(([to, text]) => link(to, `record: ${text}`)); }
        const more = item.evidence ? ` ${item.evidence}.` : "";
        return made("p", {}, `${sentence(item).replace(/\.$/, "")}.${more} `, ...links.flatMap((one) => [one, " "]));
      }), ...(items.length > 6 ? [made("p", {}, `… and ${items.length - 6} more: zoom in to part them.`)] : []));
    }

    function cross(at) {
      const line = built.querySelector(".cross"), inside = at >= left && at <= width;
      line.setAttribute("visibility", inside ? "visible" : "hidden");
      line.setAttribute("x1", at);
      line.setAttribute("x2", at);
      return inside;
    }

    const elementOf = (item) => [...(built ? built.querySelectorAll(".mark") : [])].find((one) => one.dataset.keys.split(" ").includes(item.key));
    function go(item, close) {
      current = item;
      const span = view.to - view.from, near = close ? Math.min(span, (last - first) / 4) : span;
      if (close || item.at < view.from || item.at > view.to) look(item.at - near / 2, item.at + near / 2);
      draw();
      elementOf(item)?.focus({ preventScroll: true });
      describe([item]);
    }
    function step(by) {
      const items = shown();
      if (!items.length) return;
      const place = current ? items.findIndex((item) => item.key === current.key) : -1;
      go(items[(place + by + (place < 0 && by < 0 ? 1 : 0) + items.length) % items.length], false);
    }
    // Where a link from elsewhere on the page leads: an item of the time line, or nothing.
    function find(name) {
      return everything.find((item) => (item.type === "anomaly" ? item.records.some(([to]) => to === name)
        : name === `${item.type}-${item.number}`));
    }

    const keys = {
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
      0: () => look(first, last), Home: () => look(first, last), n: () => step(1), p: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1),
      Enter: () => details.querySelector("a")?.focus(), Escape: () => { current = null; details.replaceChildren(); holder.focus(); redraw(); },
    };
    for (const [id, key] of [["in", "+"], ["out", "-"], ["earlier", "ArrowLeft"], ["later", "ArrowRight"], ["whole", "0"], ["next", "n"], ["previous", "p"]]) {
      byId(`workbench-${id}`).addEventListener("click", () => keys[key]());
    }
    gestures(holder, { zoom, pan, timeAt, keys, perPixel: () => 1 / Math.max(1, width - left - 8) });
    holder.addEventListener("pointermove", (event) => {
      const at = event.clientX - holder.getBoundingClientRect().left;
      if (!cross(at)) return;
      readout.textContent = `${seconds(timeAt(at), (view.to - view.from) / 500)}: ${tell(timeAt(at))}`;
    });
    filters(data, chosen, () => { readout.textContent = `${plural(shown().length, "mark")} left by the filters`; redraw(); });
    new ResizeObserver(() => holder.clientWidth !== width && redraw()).observe(holder);
    byId("workbench").hidden = false;
    draw();
    return { go, find };
  }

  // The lines of the nodes' logs in the part of the run that the time line shows, filtered by node as it is.
  const LOG_ROWS = 300;
  function nodeLogs(data, point) {
    const list = byId("workbench-logs"), count = byId("workbench-logs-count");
    if (!list) return () => {};
    const names = new Map(data.nodes);
    list.addEventListener("pointerover", (event) => {
      const row = event.target.closest("li");
      if (row) point(Number(row.dataset.at));
    });
    let before = "";
    return (from, to, node, around) => {
      const inside = data.logs.filter(([at, who]) => at >= from && at <= to && (node === null || who === node));
      const near = around === null ? 0 : inside.findIndex(([at]) => at >= around);
      const first = Math.max(0, Math.min(inside.length - LOG_ROWS, (near < 0 ? inside.length : near) - LOG_ROWS / 2));
      const part = inside.slice(first, first + LOG_ROWS);
      const key = `${first} ${inside.length} ${part.length ? part[0] : ""} ${node} ${around}`;
      if (key === before) return;
      before = key;
      list.replaceChildren(...part.map(([at, who, text]) => made("li", { "data-at": at, class: around !== null && Math.abs(at - around) < 500 ? "near" : "" },
        made("span", { class: "at" }, seconds(at, 1)), " ", made("b", {}, names.get(who) || `node ${who}`), ` ${text}`)));
      const sought = list.querySelector(".near");
      list.scrollTop = sought ? sought.offsetTop - list.offsetTop - list.clientHeight / 2 : 0;  // the page stays where it is
      count.textContent = inside.length > part.length ? `${part.length} of ${plural(inside.length, "line")} in view; zoom in, or go to a mark, for others`
        : `${plural(inside.length, "line")} in view`;
    };
  }

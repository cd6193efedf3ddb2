  // How the time line is moved: by wheel, drag, pinch and keys; and its filters.
  function gestures(holder, { zoom, pan, timeAt, keys, perPixel }) {
    const place = (event) => event.clientX - holder.getBoundingClientRect().left;
    // A wheel scrolls the page as ever, unless the time line is in use.
    holder.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !holder.contains(document.activeElement)) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) pan((event.deltaX || event.deltaY) * perPixel());
      else zoom(Math.exp(event.deltaY * 0.002), timeAt(place(event)));
    }, { passive: false });
    const pointers = new Map();
    holder.addEventListener("pointerdown", (event) => pointers.set(event.pointerId, { at: place(event), moved: 0 }));
    addEventListener("pointerup", (event) => pointers.delete(event.pointerId));
    addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
    addEventListener("pointermove", (event) => {
      const one = pointers.get(event.pointerId);
      if (!one) return;
      const at = place(event), other = [...pointers].find(([id]) => id !== event.pointerId);
      if (other) {
        const before = Math.abs(one.at - other[1].at), now = Math.abs(at - other[1].at);
        if (before > 4 && now > 4) zoom(before / now, timeAt((at + other[1].at) / 2));
      } else if (one.moved > 4) pan((one.at - at) * perPixel());
      one.moved += Math.abs(at - one.at);
      one.at = at;
    });
    holder.addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  }

  function filters(data, chosen, changed) {
    const clients = [...new Set(data.operations.groups.map((group) => group.client))].sort((one, other) => one - other);
    const option = (value, text) => made("option", { value }, text);
    const fill = (id, options, take) => {
      const select = byId(`workbench-${id}`);
      select.append(...options);
      select.addEventListener("change", () => { chosen[id] = take(select.value); changed(); });
    };
    const number = (value) => (value === "" ? null : Number(value));
    fill("node", data.nodes.map(([id, text]) => option(id, text)), number);
    fill("partition", data.partitions.map((text, index) => option(index, text)), number);
    fill("client", clients.map((id) => option(id, id === -2 ? "all others" : id === -1 ? "unknown" : data.clients[id])), number);
    const group = (label, side, names) => made("optgroup", { label }, ...[...new Set(names)].sort().map((name) => option(`${side} ${name}`, name)));
    fill("kind", [
      group("faults", "fault", data.faults.map((one) => one.kind)),
      group("anomalies", "anomaly", data.anomalies.map((one) => one.name)),
      group("operations", "operation", data.operations.kinds),
    ].filter((one) => one.children.length), (value) => [value.split(" ", 1)[0], value.slice(value.indexOf(" ") + 1)]);
  }

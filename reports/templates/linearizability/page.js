"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLUMN_MIN = 34, COLUMN_MAX = 110, LANE = 30, BAR = 20, LEFT = 80, TOP = 12;
  const parts = JSON.parse(document.getElementById("evidence").textContent);
  const at = (id) => document.getElementById(id);
  const chosen = { part: 0, order: 0, until: 0 };

  function make(name, attributes, parent, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  }

  const fitting = () => (at("chart").clientWidth - LEFT - 24) / part().width;
  const columnWidth = () => Math.min(COLUMN_MAX, Math.max(COLUMN_MIN, fitting()));
  const x = (column) => LEFT + column * columnWidth();
  const y = (lane) => TOP + lane * LANE;
  const part = () => parts[chosen.part];
  const order = () => part().orders[chosen.order] || [];

  function buttons(holder, texts, pressed, choose) {
    holder.replaceChildren(...texts.map((text, number) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-pressed", String(number === pressed));
      button.addEventListener("click", () => choose(number));
      return button;
    }));
  }

  function choosePart(number) {
    chosen.part = number;
    const longest = part().orders.reduce((best, one, index, all) => (one.length > all[best].length ? index : best), 0);
    if (parts.length > 1) {
      const texts = parts.map((one) => (one.key === null ? "the history" : `key ${one.key}`));
      buttons(at("parts"), texts, number, choosePart);
    }
    chooseOrder(longest);
    const target = part().stuck === null ? part().width : part().bars[part().stuck].from;
    at("chart").scrollLeft = Math.max(0, x(target) - at("chart").clientWidth * 0.7);
    const lane = part().stuck === null ? 0 : part().bars[part().stuck].lane;
    at("chart").scrollTop = Math.max(0, y(lane) - at("chart").clientHeight / 2);
  }

  function chooseOrder(number) {
    chosen.order = number;
    const texts = part().orders.map((steps, index) => {
      const state = steps.length ? steps[steps.length - 1].state : part().initial;
      return `order ${index + 1}: ${steps.length} placed, then ${shortened(state, 24)}`;
    });
    buttons(at("orders"), texts, number, chooseOrder);
    at("until").max = String(order().length);
    show(order().length);
  }

  const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  function show(until) {
    chosen.until = Math.max(0, Math.min(order().length, until));
    at("until").value = String(chosen.until);
    const state = chosen.until ? order()[chosen.until - 1].state : part().initial;
    at("now").textContent = `${chosen.until} of ${order().length} placed, state ${shortened(state, 90)}`;
    draw();
    list();
    explain(state);
  }

  function explain(state) {
    const { stuck, bars, model, left_out: leftOut } = part();
    const before = leftOut ? ` ${leftOut} operations of this key are not shown.` : "";
    if (stuck === null) {
      at("why").textContent = `The budget ended before the ${model} was decided; these are the furthest orders.${before}`;
      return;
    }
    const bar = bars[stuck];
    at("why").textContent = chosen.until < order().length
      ? `State now: ${state}. Step on to see where this order ends.${before}`
      : `This order ends in the state ${state}. “${bar.text}” of process ${bar.process} had to be in it before it`
        + ` returned, and no operation that is open leads to a state in which it is legal.${before}`;
  }

  function list() {
    const rows = [[null, "", "at first", part().initial]].concat(order().map((step, index) => {
      const bar = part().bars[step.operation];
      return [step.operation, bar.process, bar.text, step.state, index];
    }));
    at("steps").tBodies[0].replaceChildren(...rows.map(([operation, process, text, state], index) => {
      const row = document.createElement("tr");
      row.className = index > chosen.until ? "later" : index === chosen.until ? "now" : "";
      for (const [value, name] of [[index || "", "number"], [process, ""], [text, ""], [state, ""]]) {
        const cell = row.insertCell();
        cell.textContent = String(value);
        cell.className = name;
      }
      row.addEventListener("click", () => show(index));
      row.addEventListener("mouseenter", () => point(operation, true));
      row.addEventListener("mouseleave", () => point(operation, false));
      return row;
    }));
  }

  function point(operation, on) {
    const bar = at("chart").querySelector(`[data-operation="${operation}"]`);
    if (bar) bar.classList.toggle("pointed", on);
  }

  function draw() {
    const { bars, lanes, width, stuck, window: open } = part();
    const svg = make("svg", { width: x(width) + 16, height: y(lanes.length) + 10, role: "img" });
    make("title", {}, svg, "Operations over time, by process");
    const fade = make("linearGradient", { id: "fade" }, make("defs", {}, svg));
    make("stop", { offset: "0.6", "stop-color": "white" }, fade);
    make("stop", { offset: "1", "stop-color": "white", "stop-opacity": "0.1" }, fade);
    const mask = make("mask", { id: "fading", maskContentUnits: "objectBoundingBox" }, svg.querySelector("defs"));
    make("rect", { width: 1, height: 1, fill: "url(#fade)" }, mask);
    lanes.forEach((name, lane) => {
      make("line", { class: "lane", x1: 0, x2: x(width), y1: y(lane) + BAR + 5, y2: y(lane) + BAR + 5 }, svg);
    });
    const placed = new Map(order().slice(0, chosen.until).map((step, index) => [step.operation, index]));
    bars.forEach((bar, operation) => drawBar(svg, bar, operation, placed, operation === stuck, open.includes(operation)));
    drawWay(svg, bars);
    const names = make("g", { class: "names" }, svg);
    make("rect", { width: LEFT - 6, height: y(lanes.length) + 10 }, names);
    lanes.forEach((name, lane) => {
      make("text", { x: 6, y: y(lane) + 14 }, names, shortened(`process ${name}`, 12));
    });
    at("chart").replaceChildren(svg);
    keepNamesInSight();
  }

  // What begins to the left of what is seen still says what it is.
  function keepNamesInSight() {
    const left = at("chart").scrollLeft;
    const names = at("chart").querySelector(".names");
    if (names) names.setAttribute("transform", `translate(${left},0)`);
    for (const label of at("chart").querySelectorAll(".bar text")) {
      const begin = Number(label.dataset.begin), end = Number(label.dataset.end);
      const from = Math.max(begin, Math.min(left + LEFT, end - 24));
      label.setAttribute("x", from + 5);
      label.textContent = shortened(label.dataset.text, Math.max(1, Math.floor((end - from - 8) / 6.4)));
    }
  }

  function drawBar(svg, bar, operation, placed, isStuck, isOpen) {
    const kind = isStuck ? "stuck" : placed.has(operation) ? "placed" : isOpen ? "window" : "rest";
    const group = make("g", { class: `bar ${kind}`, "data-operation": operation }, svg);
    const length = Math.max(8, x(bar.to) - x(bar.from));
    const box = make("rect", { x: x(bar.from), y: y(bar.lane), width: length, height: BAR, rx: 4 }, group);
    if (bar.open) box.setAttribute("mask", "url(#fading)");
    make("title", {}, group, `${bar.text}, process ${bar.process}${bar.open ? ", never returned" : ""}`);
    const extent = { "data-begin": x(bar.from), "data-end": x(bar.from) + length, "data-text": bar.text };
    make("text", { y: y(bar.lane) + 14, ...extent }, group);
    group.addEventListener("click", () => placed.has(operation) && show(placed.get(operation) + 1));
  }

  function drawWay(svg, bars) {
    const points = order().slice(0, chosen.until).map((step) => [x(step.at), y(bars[step.operation].lane) + BAR, step.state]);
    make("polyline", { class: "way", points: points.map((one) => one.slice(0, 2).join(",")).join(" ") }, svg);
    points.forEach(([left, top, state], index) => {
      const group = make("g", { class: index === points.length - 1 ? "point last" : "point" }, svg);
      make("circle", { cx: left, cy: top, r: 4.5 }, group);
      make("title", {}, group, `${index + 1}: state ${state}`);
      if (index === 0 || points[index - 1][2] !== state) {
        make("text", { x: left + 5, y: top + 8 }, group, shortened(state, 10));
      }
    });
  }

  at("chart").addEventListener("scroll", keepNamesInSight);
  addEventListener("resize", draw);
  at("until").addEventListener("input", (event) => show(Number(event.target.value)));
  at("back").addEventListener("click", () => show(chosen.until - 1));
  at("forth").addEventListener("click", () => show(chosen.until + 1));
  at("chart").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    show(chosen.until + by);
  });
  choosePart(0);
})();

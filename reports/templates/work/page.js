  // The page: what the script takes over, links to the time line, and pictures open in print.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details.still:not([open]), details.decisive:not([open])")];
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of folded) part.open = false; });
  const timelineData = dataOf("workbench-data");
  const line = timelineData && timeLine(timelineData);
  for (const holder of document.querySelectorAll("script[data-chart]")) messageChart(JSON.parse(holder.textContent), holder.dataset.chart);
  for (const still of document.querySelectorAll("details.still")) still.open = false;
  // What is wider than the page can be scrolled by keys, too.
  const reachable = () => { for (const part of document.querySelectorAll(".scroll")) if (part.scrollWidth > part.clientWidth) part.tabIndex = 0; };
  addEventListener("resize", reachable);
  addEventListener("toggle", reachable, true);
  reachable();
  // Links lead into folded parts, too; and those to the time line show their item there.
  addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (!link) return;
    const item = link.dataset.show && line ? line.find(link.dataset.show) : null;
    for (let part = byId(link.getAttribute("href").slice(1)); part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (item) { event.preventDefault(); byId("timeline").scrollIntoView(); line.go(item, true); }
  });

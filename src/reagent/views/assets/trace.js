/* Draws how an answer goes back through the reasoning to the prompt: parts as boxes, flows as bands between them.
   `trace` is the result of reagent.views.tracing.trace_view_data; `parts` are functions of view.js. */
function reagentTrace(trace, parts) {
  "use strict";
  const { make, quoted, captionNodes, onArrowKeys } = parts;
  const SVG = "http://www.w3.org/2000/svg"; // the name of the vocabulary; nothing is loaded
  const TITLES = { prompt: "Prompt", reasoning: "Reasoning", answer: "Answer" };
  const THICKEST = 16; // width of a band that is the whole answer, in pixels
  const share = (value) => value.toFixed(2);
  const flowsOf = (end, index) => trace.flows.filter((flow) => flow[end] === index).sort((a, b) => b[2] - a[2]);
  const list = (flows, end) => flows.map((flow) => `${trace.nodes[flow[end]].name} ${share(flow[2])}`).join(", ");

  const describe = (index) => {
    const { kind, share: value } = trace.nodes[index];
    const from = list(flowsOf(1, index), 0);
    const to = list(flowsOf(0, index), 1);
    const head = { prompt: `${share(value)} of the answer comes from it`, reasoning: `${share(value)} of the answer passes through it`, answer: "the answer" }[kind];
    return [head, from && `from ${from}`, to && `to ${to}`].filter(Boolean).join("; ");
  };

  const makeNode = ({ name, kind, role, short, text, share: value }, index) => {
    const label = `${name}, ${role ? role + ": " : ""}${text}, ${describe(index)}`;
    const node = make("div.trace-node", "", { role: "option", tabindex: index ? -1 : 0, "aria-selected": "false", "aria-label": label, "data-node": index });
    node.classList.add("reagent-trace-" + kind);
    const head = node.appendChild(make("span.trace-head", "", { "aria-hidden": "true" }));
    head.append(make("span.trace-name", name), role && ` ${role}`, kind === "answer" ? "" : make("span.trace-share", share(value)));
    node.append(quoted(short, text));
    node.style.setProperty("--share", (100 * value).toFixed(1) + "%");
    return node;
  };

  const section = make("section.trace", "", { "aria-label": "The answer traced through the reasoning to the prompt" });
  section.append(make("div.trace-title", "Through the reasoning to the prompt", { role: "heading", "aria-level": 3 }));
  section.appendChild(make("div.trace-summary")).append(...captionNodes(trace.summary));
  if (trace.warning) section.append(make("div.caution", `⚠ ${trace.warning}.`));
  const graph = section.appendChild(make("div.trace-graph", "", { role: "listbox", "aria-label": "Parts of the prompt, of the reasoning, and the answer" }));
  const bands = document.createElementNS(SVG, "svg");
  bands.setAttribute("class", "reagent-trace-bands");
  bands.setAttribute("aria-hidden", "true");
  graph.append(bands);
  const columns = [["prompt"], ["reasoning", "answer"]].map((kinds) => {
    const column = graph.appendChild(make("div.trace-column", "", { role: "group", "aria-label": kinds.map((kind) => TITLES[kind]).join(" and ") }));
    return { kinds, column };
  });
  const nodes = trace.nodes.map((data, index) => {
    const { column } = columns.find(({ kinds }) => kinds.includes(data.kind));
    if (trace.nodes[index - 1]?.kind !== data.kind) column.append(make("div.trace-kind", TITLES[data.kind], { "aria-hidden": "true" }));
    return column.appendChild(makeNode(data, index));
  });
  const readout = section.appendChild(make("div.trace-readout", "", { "aria-live": "polite" }));
  if (trace.rest) section.append(make("div.note", `${trace.rest}.`));
  for (const caption of trace.checks) section.appendChild(make("div.trace-check")).append(...captionNodes(caption));
  section.appendChild(make("div.notes")).append(make("div.note", trace.note));

  // A band goes across to another column, or around on the right inside one.
  const drawBand = ([source, target, value], origin) => {
    const [a, b] = [nodes[source], nodes[target]].map((node) => node.getBoundingClientRect());
    const [fromY, toY] = [a, b].map((box) => box.top + box.height / 2 - origin.top);
    const across = a.right < b.left;
    const fromX = a.right - origin.left;
    const toX = (across ? b.left : b.right) - origin.left;
    const bend = across ? (toX - fromX) / 2 : Math.min(44, 14 + Math.abs(toY - fromY) / 8);
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", `M ${fromX} ${fromY} C ${fromX + bend} ${fromY} ${toX + (across ? -bend : bend)} ${toY} ${toX} ${toY}`);
    path.setAttribute("stroke-width", Math.max(1, THICKEST * value).toFixed(1));
    path.setAttribute("data-flow", `${source} ${target}`);
    return path;
  };

  let chosen = null;
  const mark = () => {
    for (const path of bands.querySelectorAll("[data-flow]")) {
      const linked = chosen !== null && path.getAttribute("data-flow").split(" ").includes(String(chosen));
      path.setAttribute("class", chosen === null ? "" : linked ? "reagent-linked" : "reagent-faded");
    }
    nodes.forEach((node, index) => {
      const linked = trace.flows.some(([source, target]) => (source === chosen && target === index) || (target === chosen && source === index));
      node.classList.toggle("reagent-linked", linked);
      node.setAttribute("aria-selected", String(index === chosen));
    });
    readout.textContent = chosen === null ? "To see where a part comes from and where it goes, point at it, tap it or use the arrow keys." : `${trace.nodes[chosen].name}: ${describe(chosen)}.`;
  };
  const draw = () => {
    const origin = graph.getBoundingClientRect();
    bands.replaceChildren(...trace.flows.map((flow) => drawBand(flow, origin)));
    mark();
  };
  const choose = (node) => {
    chosen = node ? Number(node.dataset.node) : null;
    mark();
  };
  for (const type of ["mouseover", "focusin", "click"]) {
    graph.addEventListener(type, (event) => {
      const node = event.target.closest(".reagent-trace-node");
      if (node) choose(node);
    });
  }
  graph.addEventListener("mouseleave", () => choose(graph.querySelector(".reagent-trace-node:focus-visible")));
  onArrowKeys(graph, ".reagent-trace-node", choose);
  new ResizeObserver(draw).observe(graph); // also draws for the first time, when the boxes have their places
  mark();
  return section;
}


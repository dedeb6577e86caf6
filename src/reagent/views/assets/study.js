/* Draws a prompt study into `element`. `data` is the result of reagent.views.studies_page.to_view_data. A part is chosen
   in the template or in the table, and the panel shows on which inputs it matters most. */
function reagentStudy(element, data) {
  "use strict";
  const { make, quoted, onArrowKeys, drawFacts } = reagentParts();
  const largest = Math.max(...data.parts.map(({ mean }) => Math.abs(mean ?? 0)), 1e-9);
  let chosen = data.order[0];

  const percent = (value) => `${((100 * (value - data.low)) / (data.high - data.low || 1)).toFixed(2)}%`;
  const choose = (part) => {
    chosen = part;
    update();
  };

  // --- the template ---

  const drawTemplate = () => {
    const box = make("div.study-template", "", { role: "group", "aria-label": "The template", translate: "no", lang: "" });
    const last = new Map(data.template.map(([, part], at) => [part, at]));
    data.template.forEach(([text, part], at) => {
      if (part === null) {
        box.append(make("span.study-fixed", text));
        return;
      }
      const { verdict, label, mean } = data.parts[part];
      const node = make("span.study-piece", "", { role: "button", tabindex: -1, "data-part": part, "aria-label": `${label}: ${verdict}` });
      node.classList.add(`reagent-${verdict}`);
      node.style.setProperty("--weight", (Math.abs(mean ?? 0) / largest).toFixed(3));
      const end = text.trimEnd();
      node.append(make("span.study-text", end));
      if (last.get(part) === at) node.append(make("span.tag", verdict));
      box.append(node, text.slice(end.length));
    });
    return box;
  };

  // --- the table, with an axis for the intervals ---

  const cell = (kind, content) => {
    const node = make(`div.${kind}`, "", { role: "cell" });
    node.append(content);
    return node;
  };

  const drawAxis = ({ mean, low, high }) => {
    const axis = make("div.study-axis", "", { "aria-hidden": "true" });
    const place = (kind, left, right) => {
      const mark = axis.appendChild(make(`div.${kind}`));
      mark.style.left = percent(left);
      if (right !== undefined) mark.style.width = `calc(${percent(right)} - ${percent(left)})`;
    };
    place("study-band", -data.threshold, data.threshold);
    place("study-zero", 0);
    if (low !== null) place("study-line", low, high);
    if (mean !== null) place("study-point", mean);
    return axis;
  };

  const drawTable = () => {
    const table = make("div.study-table", "", { role: "table", "aria-label": "The parts and their effects" });
    const head = table.appendChild(make("div.study-row", "", { role: "row" }));
    for (const [kind, text] of [
      ["study-name", "part"], ["study-verdict", "verdict"], ["study-plot", "interval; the band counts as none"],
      ["study-number", `effect (${data.unit})`], ["study-number", "matters in"], ["study-number", "tokens"],
    ]) {
      const node = head.appendChild(make(`div.${kind}`, text, { role: "columnheader" }));
      node.classList.add("reagent-head");
    }
    for (const part of data.order) table.append(drawRow(part));
    return table;
  };

  const drawRow = (part) => {
    const one = data.parts[part];
    const row = make("div.study-row", "", { role: "row", tabindex: -1, "data-part": part });
    const tag = make("span.tag", one.verdict);
    tag.classList.add(`reagent-${one.verdict}`);
    const number = cell("study-number", one.number);
    number.title = `interval ${one.interval}`;
    row.append(cell("study-name", quoted(one.label)), cell("study-verdict", tag), cell("study-plot", drawAxis(one)));
    row.append(number, cell("study-number", one.matters), cell("study-number", one.tokens));
    return row;
  };

  // --- the panel ---

  const drawPanel = () => {
    const { label, caption, examples, verdict } = data.parts[chosen];
    const title = make("div.panel-title");
    title.append(quoted(label), ` is ${verdict === "hurts" ? "harmful" : verdict}. ${caption}`);
    const list = make("div.study-examples", "", { role: "list" });
    for (const [id, answer, effect] of examples) {
      const line = list.appendChild(make("div.study-example", "", { role: "listitem" }));
      line.append(make("span.study-number", effect), " ", make("bdi.study-id", id), " ", quoted(answer));
    }
    const hint = make("div.hint", examples.length ? "Inputs where the answer loses most, and least, without it:" : "");
    panel.replaceChildren(title, hint, list);
  };

  const update = () => {
    for (const node of element.querySelectorAll("[data-part]")) {
      const isChosen = Number(node.dataset.part) === chosen;
      if (node.getAttribute("role") === "button") node.setAttribute("aria-pressed", String(isChosen));
      node.classList.toggle("reagent-chosen", isChosen);
    }
    for (const group of [template, table]) {
      const items = [...group.querySelectorAll("[data-part]")];
      const current = items.find((node) => Number(node.dataset.part) === chosen) ?? items[0];
      for (const node of items) node.tabIndex = node === current ? 0 : -1; // one tab stop
    }
    drawPanel();
  };

  const template = drawTemplate();
  const table = drawTable();
  const panel = make("div.panel", "", { "aria-live": "polite" });
  const frame = make("div.study-frame");
  const layout = frame.appendChild(make("div.study-layout"));
  const side = layout.appendChild(make("div.study-side"));
  layout.prepend(template);
  side.append(table, panel);
  for (const group of [template, table]) {
    onArrowKeys(group, "[data-part]", (node) => choose(Number(node.dataset.part)));
    group.addEventListener("click", (event) => {
      const node = event.target.closest("[data-part]");
      if (node) choose(Number(node.dataset.part));
    });
  }
  element.replaceChildren(
    make("div.study-headline", data.headline, { role: "heading", "aria-level": 2 }),
    ...data.details.map((line) => make("div.study-detail", line)),
    frame,
    make("div.notes", data.legend.map(([verdict, meaning]) => `${verdict}: ${meaning}`).join(" · ")),
    drawFacts(data.facts),
  );
  update();
}

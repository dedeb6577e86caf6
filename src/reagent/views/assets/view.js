/* Draws one explanation into `element`, replacing what is there; calling it again keeps the chosen
   output token. `data` is what reagent.views.html.view_data returns. All text goes in as text nodes. */
function reagentView(element, data) {
  "use strict";
  const outputs = data.scores.length;
  let target = Math.min(Number(element.dataset.target || 0), Math.max(0, outputs - 1));
  let order = []; // positions of the context, most important first
  let current = null; // the context token whose numbers are shown

  // Elements are named "div.kind": blocks are div, parts of a line span, foreign text bdi.
  const make = (selector, text = "", attributes = {}) => {
    const [tag, kind] = selector.split(".");
    const node = document.createElement(tag);
    node.className = "reagent-" + kind;
    node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const name = (position) => make("bdi.label", data.tokens[position].label, { translate: "no", lang: "" });
  const score = (value) => (value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3));
  const effect = (position) => {
    const value = data.effects[target][position];
    const sign = value < 0 ? "−" : "+";
    const error = data.stderr.length ? " ± " + data.stderr[target][position].toFixed(data.digits) : "";
    return sign + Math.abs(value).toFixed(data.digits) + error;
  };
  const isOpen = (position) => Boolean(data.open[target][position]); // no errors: an empty row
  const openSign = (meaning) => make("span.open", data.openSign, { role: "img", "aria-label": meaning, title: meaning });

  // --- what changes with the chosen output token ---

  const ranking = () =>
    data.scores[target]
      .map((_, position) => position)
      .filter((position) => !data.tokens[position].protected)
      .sort((a, b) => data.scores[target][b] - data.scores[target][a]);

  const rank = (position) =>
    `rank ${order.indexOf(position) + 1} of ${order.length}` + (isOpen(position) ? " (not settled)" : "");

  const numbers = (position) => {
    const token = data.tokens[position];
    const parts = token.protected
      ? ["protected: never replaced"]
      : ["score " + score(data.scores[target][position]), rank(position)];
    if (data.effects.length && !token.protected) parts.push(`effect ${effect(position)} ${data.unit}`.trim());
    parts.push(`position ${position}`, (token.ids.length > 1 ? "token ids " : "token id ") + token.ids.join(", "));
    return parts.join(" · ");
  };

  const contextToken = (text, kind, position, largest) => {
    const weight = data.scores[target][position] / largest;
    const node = make("span.token", "", { role: "option", tabindex: -1, "data-position": position });
    node.setAttribute("aria-label", `${data.tokens[position].label}, ${numbers(position)}`);
    node.classList.add("reagent-" + kind);
    if (data.tokens[position].protected) node.classList.add("reagent-protected");
    inked(node, text).style.setProperty("--weight", weight.toFixed(3));
    return node;
  };

  // The space before a word stays unshaded, so that no sliver of it hangs at the end of a line.
  const inked = (node, text) => {
    const space = text.trim() ? text.length - text.trimStart().length : 0;
    fill(node, text.slice(0, space));
    const ink = node.appendChild(make("span.ink"));
    fill(ink, text.slice(space));
    return ink;
  };

  // A newline gets a mark, so that there is something to shade; the mark is not copied with the text.
  const fill = (node, text) => {
    text.split("\n").forEach((line, index) => {
      if (index > 0) node.append(make("span.newline", "⏎", { "aria-hidden": "true" }), "\n");
      node.append(line);
    });
  };

  const drawContext = () => {
    const largest = Math.max(0, ...data.scores[target]) || 1;
    const stop = data.inputs + target;
    context.replaceChildren();
    for (const [text, kind, position] of data.pieces) {
      if (position === null) fill(context, text);
      else if (position < stop) context.append(contextToken(text, kind, position, largest));
      else {
        inked(context.appendChild(make("span.said")), text);
        break;
      }
    }
    const first = context.querySelector(".reagent-token");
    if (first) first.tabIndex = 0;
  };

  const drawTop = () => {
    const best = order.slice(0, data.listed).filter((position) => data.scores[target][position] > 0);
    const effects = data.effects.length > 0;
    const head = ["#", "token", "at", "score", ""];
    if (effects) head.push(`effect${data.stderr.length ? " ± stderr" : ""}${data.unit ? ` (${data.unit})` : ""}`);
    if (data.stderr.length) head.push("");
    const row = make("div.row", "", { role: "row" });
    row.append(...head.map((text) => make("div.head", text, { role: "columnheader" })));
    const scale = effectScale(best);
    top.replaceChildren(row, ...best.map((position, index) => topRow(position, index + 1, scale)));
    if (!best.length) top.replaceChildren(make("div.hint", "No context token has any importance."));
    notes.replaceChildren();
    if (best.some(isOpen)) {
      const note = notes.appendChild(make("div.note"));
      note.append(make("span.open", data.openSign, { "aria-hidden": "true" }), " " + data.openNote);
    }
    if (best.length && data.unitNote) notes.append(make("div.note", data.unitNote));
  };

  const topRow = (position, place, scale) => {
    const row = make("div.row", "", { role: "row", "data-position": position });
    const cell = (kind, content) => {
      const node = row.appendChild(make("div.cell", "", { role: "cell" }));
      node.classList.add("reagent-" + kind);
      node.append(content);
    };
    const bar = make("div.fill");
    bar.style.width = (100 * data.scores[target][position]) / data.scores[target][order[0]] + "%";
    cell("number", make("span.place", String(place)));
    if (isOpen(position)) row.lastChild.append(" ", openSign("place not settled"));
    cell("name", name(position));
    cell("number", String(position));
    cell("number", score(data.scores[target][position]));
    cell("bar", bar);
    if (data.effects.length) cell("number", effect(position));
    if (data.stderr.length) cell("whisker", whisker(position, scale));
    return row;
  };

  // The effect as a point with its standard error, on an axis that all rows share.
  const effectScale = (positions) => {
    if (!data.stderr.length) return null;
    const ends = [-1, 1].flatMap((side) =>
      positions.map((position) => data.effects[target][position] + side * data.stderr[target][position]),
    );
    const low = Math.min(0, ...ends);
    const width = Math.max(0, ...ends) - low || 1;
    return (value) => (100 * (value - low)) / width;
  };

  const whisker = (position, scale) => {
    const [value, error] = [data.effects[target][position], data.stderr[target][position]];
    const axis = make("div.axis", "", { "aria-hidden": "true" });
    const [zero, line, point] = [make("div.zero"), make("div.line"), make("div.point")];
    zero.style.left = scale(0) + "%";
    line.style.left = scale(value - error) + "%";
    line.style.width = scale(value + error) - scale(value - error) + "%";
    point.style.left = scale(value) + "%";
    axis.append(zero, line, point);
    return axis;
  };

  const choose = (next) => {
    target = next;
    element.dataset.target = target;
    order = ranking();
    [...choices.children].forEach((node, index) => {
      node.setAttribute("aria-selected", String(index === target));
      node.tabIndex = index === target ? 0 : -1;
    });
    const { probability } = data.tokens[data.inputs + target];
    heading.replaceChildren("What led to ", name(data.inputs + target), probability && ` (probability ${probability})`);
    const sign = data.mild[target] ? data.openSign : "⚠";
    caution.textContent = data.warnings[target] && `${sign} This output token ${data.warnings[target]}.`;
    caution.classList.toggle("reagent-mild", data.mild[target]);
    most.textContent = score(Math.max(0, ...data.scores[target]));
    drawContext();
    drawTop();
    if (current !== null && current >= data.inputs + target) current = null;
    inspect(current);
  };

  const inspect = (position) => {
    current = position;
    for (const node of element.querySelectorAll("[data-position]")) {
      const same = Number(node.dataset.position) === position;
      node.classList.toggle("reagent-current", same);
      if (node.matches(".reagent-token")) node.setAttribute("aria-selected", String(same));
    }
    if (position === null) readout.replaceChildren("Point at a token, tap it or use the arrow keys to see its numbers.");
    else readout.replaceChildren(name(position), " " + numbers(position));
  };

  // --- events: one tab stop for each list, arrow keys inside it ---

  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const arrows = (list, selector, act) =>
    list.addEventListener("keydown", (event) => {
      const items = [...list.querySelectorAll(selector)];
      const at = items.indexOf(event.target.closest(selector));
      let next = at + (STEPS[event.key] || 0);
      if (event.key === "Home") next = 0;
      else if (event.key === "End") next = items.length - 1;
      else if (!STEPS[event.key] && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      next = Math.max(0, Math.min(items.length - 1, next));
      items.forEach((item, index) => (item.tabIndex = index === next ? 0 : -1));
      items[next].focus();
      act(items[next], next);
    });
  const watch = (list, ...types) => {
    for (const type of types) {
      list.addEventListener(type, (event) => {
        const node = event.target.closest("[data-position]");
        if (node) inspect(Number(node.dataset.position));
      });
    }
  };

  // --- the parts that stay ---

  const facts = make("div.facts");
  for (const [label, value] of data.facts) {
    const fact = facts.appendChild(make("span.fact", label + " "));
    fact.append(make("bdi.value", value));
  }
  if (!outputs) {
    element.replaceChildren(make("div.hint", "There is no output token to explain."), facts);
    return;
  }
  const choices = make("div.choices", "", { role: "listbox", "aria-label": "Output tokens", "aria-orientation": "horizontal" });
  for (let index = 0; index < outputs; index++) {
    const choice = choices.appendChild(make("span.choice", "", { role: "option" }));
    choice.append(name(data.inputs + index));
    if (data.mild[index]) choice.append(openSign("ranking still open"));
    else if (data.warnings[index]) choice.append(make("span.flag", "⚠", { role: "img", "aria-label": "has a warning" }));
    choice.addEventListener("click", () => choose(index));
  }
  const heading = make("div.heading", "", { role: "heading", "aria-level": 2, "aria-live": "polite" });
  const caution = make("div.caution", "", { role: "status" });
  const context = make("div.context", "", { role: "listbox", "aria-label": "Context tokens", translate: "no", lang: "" });
  const legend = make("div.legend", "score 0 ");
  const most = make("span.most");
  legend.append(make("span.scale", "", { "aria-hidden": "true" }), most);
  const readout = make("div.readout", "", { "aria-live": "polite" });
  const top = make("div.top", "", { role: "table", "aria-label": "Most important tokens" });
  const notes = make("div.notes");
  const question = make("div.question", outputs > 1 ? "The output: choose a token" : "The output");
  if (outputs > 1 && data.mild.includes(true)) question.append(` (${data.openSign} ranking still open)`);

  element.replaceChildren(question, choices, heading, caution, context, legend, readout, top, notes, facts);
  arrows(choices, ".reagent-choice", (_, index) => choose(index));
  arrows(context, ".reagent-token", (node) => inspect(Number(node.dataset.position)));
  watch(context, "mouseover", "focusin", "click");
  watch(top, "mouseover", "click");
  choose(target);
}

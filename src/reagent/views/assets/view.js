/* Draws one explanation into `element`, replacing what is there; calling it again keeps the chosen
   output token. `data` is what reagent.views.html.view_data returns. All text goes in as text nodes. */
function reagentView(element, data) {
  "use strict";
  const outputs = data.scores.length;
  let target = Math.min(Number(element.dataset.target || data.focus), Math.max(0, outputs - 1));
  let row = null; // what is said about the chosen output token
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
  const quoted = (text, title = text) =>
    make("bdi.label", text, { translate: "no", lang: "", ...(title === text ? {} : { title }) });
  const name = (position) => quoted(data.tokens[position].label);
  const shortName = (position) => quoted(data.tokens[position].short, data.tokens[position].label);
  const line = (parts) => parts.map(([text, foreign]) => (foreign ? quoted(text) : text));
  const score = (value) => (value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3));
  const signed = (value, error) => {
    const sign = value < 0 ? "−" : "+";
    return sign + Math.abs(value).toFixed(data.digits) + (error === null ? "" : " ± " + error.toFixed(data.digits));
  };
  const effect = (position) =>
    signed(data.effects[target][position], data.stderr.length ? data.stderr[target][position] : null);
  const effectHead = `effect${data.stderr.length ? " ± stderr" : ""}${data.unit ? ` (${data.unit})` : ""}`;
  const openPlaces = (position) => row.open[position] || ""; // no errors: an empty row

  // --- what changes with the chosen output token ---

  const ranking = () =>
    data.scores[target]
      .map((_, position) => position)
      .filter((position) => !data.tokens[position].protected)
      .sort((a, b) => data.scores[target][b] - data.scores[target][a]);

  const rank = (position) =>
    `rank ${openPlaces(position) || order.indexOf(position) + 1} of ${order.length}` +
    (openPlaces(position) ? " (not settled)" : "");

  const numbers = (position) => {
    const token = data.tokens[position];
    const parts = token.protected
      ? ["protected: never replaced"]
      : ["score " + score(data.scores[target][position]), rank(position)];
    if (data.effects.length && !token.protected) parts.push(`effect ${effect(position)} ${data.unit}`.trim());
    const ids = token.ids.length > 1 ? "token ids " : "token id ";
    parts.push(`position ${position}`, token.ids.length > 8 ? `${token.ids.length} tokens` : ids + token.ids.join(", "));
    return parts.join(" · ");
  };

  const contextToken = (text, kind, position, largest) => {
    const weight = data.scores[target][position] / largest;
    const node = make("span.token", "", { role: "option", tabindex: -1, "data-position": position });
    node.setAttribute("aria-label", `${data.tokens[position].label}, ${numbers(position)}`);
    node.classList.add("reagent-" + kind);
    if (data.tokens[position].protected) node.classList.add("reagent-protected");
    if (row.outline.length && weight < 0.05) node.classList.add("reagent-faint");
    inked(node, text).style.setProperty("--weight", weight.toFixed(3));
    return node;
  };

  // The space before a word stays unshaded, so that no sliver of it hangs at the end of a line.
  const inked = (node, text) => {
    const space = text.trim() ? text.length - text.trimStart().length : 0;
    node.append(text.slice(0, space));
    const ink = node.appendChild(make("span.ink"));
    fill(ink, text.slice(space));
    return ink;
  };

  // A newline alone gets a mark, so that there is something to shade; the mark is not copied with the text.
  const fill = (node, text) => {
    if (text.trim()) node.append(text);
    else {
      text.split("\n").forEach((spaces, index) => {
        if (index > 0) node.append(make("span.newline", "⏎", { "aria-hidden": "true" }), "\n");
        node.append(spaces);
      });
    }
  };

  // Each message of a chat is a group of its own, beside its role.
  const drawContext = () => {
    const largest = Math.max(0, ...data.scores[target]) || 1;
    const stop = data.inputs + target;
    let into = context;
    context.replaceChildren();
    for (const [text, kind, position] of data.pieces) {
      if (kind === "role") {
        const message = context.appendChild(make("div.message", "", { role: "group", "aria-label": text }));
        message.append(make("div.role", text, { "aria-hidden": "true", dir: "auto" }));
        into = message.appendChild(make("div.body"));
      } else if (position === null) into.append(text);
      else if (position < stop) into.append(contextToken(text, kind, position, largest));
      else {
        inked(into.appendChild(make("span.said")), text);
        break;
      }
    }
    const first = context.querySelector(".reagent-token");
    if (first) first.tabIndex = 0;
    context.classList.toggle("reagent-scrolls", context.scrollHeight > context.clientHeight);
    reveal(order[0]);
  };

  // A long text scrolls inside its box; the page stays where it is.
  const reveal = (position) => {
    const node = context.querySelector(`[data-position="${position}"]`);
    const above = node ? Math.max(0, context.clientHeight - node.offsetHeight) / 2 : 0;
    if (node) context.scrollTop = node.offsetTop - above;
  };

  const headRow = (texts) => {
    const node = make("div.row", "", { role: "row" });
    node.append(...texts.map((text) => make("div.head", text, { role: "columnheader" })));
    return node;
  };
  const cell = (node, kind, content) => {
    const part = node.appendChild(make("div.cell", "", { role: "cell" }));
    part.classList.add("reagent-" + kind);
    part.append(content);
  };

  const drawOutline = () => {
    levels.replaceChildren();
    for (const [noun, units] of row.outline) {
      levels.append(headRow([noun, "score", ...(data.effects.length ? [effectHead] : [])]));
      for (const [short, full, value, change, error] of units) {
        const node = levels.appendChild(make("div.row", "", { role: "row" }));
        cell(node, "name", quoted(short, full));
        cell(node, "number", score(value));
        if (change !== null) cell(node, "number", signed(change, error));
      }
    }
  };

  const drawTop = () => {
    const best = order.slice(0, data.listed).filter((position) => data.scores[target][position] > 0);
    const head = ["#", data.noun, "at", "score", ""];
    if (data.effects.length) head.push(effectHead);
    if (data.stderr.length) head.push("");
    const scale = effectScale(best);
    top.replaceChildren(headRow(head), ...best.map((position, index) => topRow(position, index + 1, scale)));
    if (!best.length) top.replaceChildren(make("div.hint", `No context ${data.noun} has any importance.`));
    notes.replaceChildren();
    if (best.some(openPlaces)) notes.append(make("div.note", data.placesNote));
    if (best.length && row.unitNote.length) notes.appendChild(make("div.note")).append(...line(row.unitNote));
    instead.replaceChildren();
    if (row.whatIf.length) instead.append(make("div.hint", "What the model would have said"));
    for (const [position, parts] of row.whatIf) {
      instead.appendChild(make("div.if", "", { "data-position": position })).append(...line(parts));
    }
  };

  const topRow = (position, place, scale) => {
    const node = make("div.row", "", { role: "row", "data-position": position });
    const bar = make("div.fill");
    bar.style.width = (100 * data.scores[target][position]) / data.scores[target][order[0]] + "%";
    const open = openPlaces(position);
    const heard = open ? { role: "img", "aria-label": open.replace("–", " to ") + ", place not settled" } : {};
    cell(node, "number", make("span.place", open || String(place), heard));
    cell(node, "name", shortName(position));
    cell(node, "number", String(position));
    cell(node, "number", score(data.scores[target][position]));
    cell(node, "bar", bar);
    if (data.effects.length) cell(node, "number", effect(position));
    if (data.stderr.length) cell(node, "whisker", whisker(position, scale));
    return node;
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
    row = data.rows[target];
    order = ranking();
    [...choices.children].forEach((node, index) => {
      node.setAttribute("aria-selected", String(index === target));
      node.tabIndex = index === target ? 0 : -1;
    });
    heading.replaceChildren(...line(row.question), row.chances && ` (${row.chances})`);
    const sign = row.mild ? data.openSign : "⚠";
    caution.textContent = row.warning && `${sign} This output ${row.warning}.`;
    caution.classList.toggle("reagent-mild", row.mild);
    most.textContent = score(Math.max(0, ...data.scores[target]));
    drawContext();
    drawOutline();
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
    if (position === null) readout.replaceChildren(`Point at a ${data.noun}, tap it or use the arrow keys to see its numbers.`);
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
        if (!node) return;
        inspect(Number(node.dataset.position));
        if (list !== context) reveal(node.dataset.position);
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
    choice.append(shortName(data.inputs + index));
    const { not, mild, warning } = data.rows[index];
    if (not) choice.append(" not ", quoted(not));
    if (mild) choice.append(make("span.open", data.openSign, { role: "img", "aria-label": "ranking still open" }));
    else if (warning) choice.append(make("span.flag", "⚠", { role: "img", "aria-label": "has a warning" }));
    choice.addEventListener("click", () => choose(index));
  }
  const heading = make("div.heading", "", { role: "heading", "aria-level": 2, "aria-live": "polite" });
  const caution = make("div.caution", "", { role: "status" });
  const context = make("div.context", "", { role: "listbox", "aria-label": `Context ${data.noun}s`, translate: "no", lang: "" });
  const legend = make("div.legend", "score 0 ");
  const most = make("span.most");
  legend.append(make("span.scale", "", { "aria-hidden": "true" }), most);
  const readout = make("div.readout", "", { "aria-live": "polite" });
  const levels = make("div.levels", "", { role: "table", "aria-label": "Most important parts, coarse to fine" });
  const top = make("div.top", "", { role: "table", "aria-label": `Most important ${data.noun}s` });
  if (!["token", "word"].includes(data.noun)) top.classList.add("reagent-wordy");
  const notes = make("div.notes");
  const instead = make("div.instead");
  const question = make("div.question", outputs > 1 ? "The output: choose a token" : "The output");
  if (outputs > 1 && data.rows.some((one) => one.mild)) question.append(` (${data.openSign} ranking still open)`);

  element.replaceChildren(question, choices, heading, caution, context, legend, readout, levels, top, notes, instead, facts);
  arrows(choices, ".reagent-choice", (_, index) => choose(index));
  arrows(context, ".reagent-token", (node) => inspect(Number(node.dataset.position)));
  watch(context, "mouseover", "focusin", "click");
  for (const list of [top, instead]) watch(list, "mouseover", "click");
  choose(target);
}

/* Functions that the views share. Text is inserted as text nodes only. `data` is the result of
   reagent.views.html.to_view_data. */
function reagentParts() {
  "use strict";

  // A selector is "tag.kind": div for blocks, span for parts of a line, bdi for text from the prompt or a model.
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
  const shortName = (data, position) => quoted(data.tokens[position].short, data.tokens[position].label);
  const captionNodes = (parts) => parts.map(([text, isQuoted]) => (isQuoted ? quoted(text) : text));
  const score = (value) => (value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3));

  // The positions of the context that are not protected, most important first.
  const ranking = (data, target) =>
    data.rows[target].scores
      .map((_, position) => position)
      .filter((position) => !data.tokens[position].protected)
      .sort((a, b) => data.rows[target].scores[b] - data.rows[target].scores[a]);

  // --- the running text ---

  // The share of an effect that is not noise: a shade is weaker if the effect is uncertain. Exact effects have 1.
  const certainty = ({ effects, stderr }, position) => {
    const [effect, error] = [effects[position], stderr[position]];
    return error ? effect ** 2 / (effect ** 2 + error ** 2) : 1;
  };

  // A piece has several positions where tokens share a character; its weight is the sum of their scores.
  const pieceWeight = ({ scores }, positions) => positions.reduce((sum, position) => sum + scores[position], 0);
  const isBefore = ({ start }, positions) => positions.every((position) => position < start);
  const largestWeight = (data, row) => {
    const before = data.pieces.filter(([, , positions]) => isBefore(row, positions));
    return Math.max(0, ...before.map(([, , positions]) => pieceWeight(row, positions)));
  };

  const VISIBLE_WEIGHT = 0.15; // of a shade that is worth scrolling to

  // Each message of a chat is a group beside its role. `describe` returns the attributes of a token. A piece of
  // several tokens is described by the strongest. A piece that contains the target is drawn as the answer.
  const drawText = (context, data, target, describe) => {
    const row = data.rows[target];
    const largest = largestWeight(data, row) || 1;
    const { scores, end } = row;
    let into = context;
    context.replaceChildren();
    for (const [text, kind, positions] of data.pieces) {
      if (kind === "role") {
        const message = context.appendChild(make("div.message", "", { role: "group", "aria-label": text }));
        message.append(make("div.role", text, { "aria-hidden": "true", dir: "auto" }));
        into = message.appendChild(make("div.body"));
      } else if (!positions.length) into.append(text);
      else if (isBefore(row, positions)) {
        const strongest = positions.reduce((best, position) => (scores[position] > scores[best] ? position : best));
        const places = { "data-position": strongest, "data-positions": positions.join(" ") };
        const node = into.appendChild(make("span.token", "", { ...places, ...describe(strongest) }));
        const weight = (certainty(row, strongest) * pieceWeight(row, positions)) / largest;
        node.classList.add("reagent-" + kind);
        if (positions.every((position) => data.tokens[position].protected)) node.classList.add("reagent-protected");
        if (data.rows[target].levels.length && weight < 0.05) node.classList.add("reagent-faint");
        appendInk(node, text).style.setProperty("--weight", weight.toFixed(3));
        appendMark(node, data, target, ...positions);
        node.append(spaceAfter(text));
      } else {
        const node = into.appendChild(make(positions[0] < end ? "span.answer" : "span.later", "", { "data-output": positions.at(-1) - data.inputs }));
        appendInk(node, text);
        into.append(spaceAfter(text));
      }
    }
    context.classList.toggle("reagent-scrolls", context.scrollHeight > context.clientHeight + 8); // not by a descender
    context.style.setProperty("--ruler", ruler(context));
    reveal(context, ranking(data, target)[0]);
  };

  // Marks at the edge of a text that scrolls: where shaded parts are, also those out of sight. A background, because it
  // stays where it is while the text scrolls.
  const ruler = (context) => {
    const weightOf = (node) => Number(node.querySelector(".reagent-ink").style.getPropertyValue("--weight"));
    const shaded = [...context.querySelectorAll(".reagent-token")].filter((node) => weightOf(node) >= VISIBLE_WEIGHT);
    const marks = shaded.map((node) => {
      const [top, height] = [node.offsetTop, node.offsetHeight].map((size) => (100 * size) / context.scrollHeight);
      const [from, to] = [top, top + Math.max(height, 1)].map((share) => share.toFixed(1) + "%");
      const colour = `rgb(var(--shade) / ${Math.max(0.4, weightOf(node))})`;
      return `linear-gradient(transparent ${from}, ${colour} ${from} ${to}, transparent ${to})`;
    });
    return marks.join(", ") || "none";
  };

  // The spaces around a word have no shade, so that none is visible at the end of a line. A space with a combining
  // mark is part of the word.
  const appendInk = (node, text) => {
    const space = text.trim() ? text.match(/^\s*(?!\p{M})/u)[0].length : 0;
    const end = text.trim() ? text.trimEnd().length : text.length;
    node.append(text.slice(0, space));
    const ink = node.appendChild(make("span.ink"));
    appendText(ink, text.slice(space, end));
    return ink;
  };
  const spaceAfter = (text) => (text.trim() ? text.slice(text.trimEnd().length) : "");

  // The letters of the groups of the units at these positions. They are not copied with the text.
  const appendMark = (node, data, target, ...positions) => {
    const all = positions.map((position) => data.rows[target].groupLetters[position] || "").join("");
    const letters = [...new Set(all)].join("");
    if (!letters) return;
    node.setAttribute("data-groups", letters);
    const before = node.querySelector(".reagent-newline") || node; // on the line of its unit
    before.append(make("sup.mark", letters, { "aria-hidden": "true" }));
  };

  // Newlines in a text of whitespace get a mark, so that the shade is visible. The mark is not copied with the text.
  const appendText = (node, text) => {
    if (text.trim()) node.append(text);
    else {
      text.split("\n").forEach((spaces, index) => {
        if (index > 0) node.append(make("span.newline", "⏎", { "aria-hidden": "true" }), "\n");
        node.append(spaces);
      });
    }
  };

  // Scrolls a long text inside its box, without scrolling the page.
  const reveal = (context, position) => {
    const node = context.querySelector(`[data-positions~="${position}"]`);
    const above = node ? Math.max(0, context.clientHeight - node.offsetHeight) / 2 : 0;
    if (node) context.scrollTop = node.offsetTop - above;
  };

  // The text that a chat template adds around the messages: its beginning, or all of it after a click.
  const drawTemplate = (element, data) => {
    if (!data.template) return [];
    const [short, text] = data.template;
    const details = make("details.template");
    details.open = element.querySelector(".reagent-template")?.open ?? false; // a redrawn view stays as it is
    const summary = details.appendChild(make("summary.template-line"));
    summary.append(make("span.template-name", "template", { title: "The model saw this text too." }), " ", quoted(short));
    details.append(make("div.template-text", text, { translate: "no", lang: "" }));
    return [details];
  };

  const legend = (largest, name = "score") => {
    const node = make("div.legend", `${name} 0 `);
    node.append(make("span.scale", "", { "aria-hidden": "true" }), largest);
    return node;
  };

  // Outlines the members of all groups that have one of these letters, and their lines.
  const linkGroups = (element, letters = "") => {
    for (const node of element.querySelectorAll("[data-groups]")) {
      node.classList.toggle("reagent-linked", [...node.dataset.groups].some((letter) => letters.includes(letter)));
    }
  };

  // The list of groups; a line links the members of its group inside `root`.
  const groupList = (root) => {
    const list = make("div.groups");
    for (const type of ["mouseover", "focusin", "click"]) {
      list.addEventListener(type, (event) => linkGroups(root, event.target.closest("[data-groups]")?.dataset.groups));
    }
    return list;
  };

  // A line for each group, and one for a sufficiency test that passed.
  const drawGroups = (list, row) => {
    list.replaceChildren();
    for (const [letter, , caption] of row.groups) {
      const line = list.appendChild(make("div.group", "", { "data-groups": letter, tabindex: 0 }));
      line.append(make("sup.mark", letter), " ", ...captionNodes(caption));
    }
    const [passed, caption] = row.sufficiency || [];
    if (passed) list.appendChild(make("div.sufficiency")).append(...captionNodes(caption));
  };

  // Outlines one position in all places where it is drawn.
  const highlight = (element, position) => {
    for (const node of element.querySelectorAll("[data-position]")) {
      const same = (node.dataset.positions || node.dataset.position).split(" ").includes(String(position));
      node.classList.toggle("reagent-current", same);
      if (node.matches('[role="option"]')) node.setAttribute("aria-selected", String(same));
    }
  };

  // --- tables ---

  const cell = (node, kind, content) => {
    const part = node.appendChild(make("div.cell", "", { role: "cell" }));
    part.classList.add("reagent-" + kind);
    part.append(content);
  };
  const emptyHint = (data) => make("div.hint", `No context ${data.noun} has any importance.`);
  const bar = (share) => {
    const node = make("div.fill");
    node.style.width = 100 * share + "%";
    return node;
  };

  // The provenance, as pairs of name and value.
  const drawFacts = (pairs) => {
    const facts = make("div.facts");
    for (const [label, value] of pairs) {
      const fact = facts.appendChild(make("span.fact", label + " "));
      fact.append(make("bdi.value", value));
    }
    return facts;
  };

  // --- the chosen output token ---

  const initialTarget = (element, data) =>
    Math.min(Number(element.dataset.target || data.focus), Math.max(0, data.rows.length - 1));

  // The list of output tokens and the question about the chosen one. With `showFlags`, tokens with warnings are marked.
  const outputChooser = (data, choose, showFlags) => {
    const several = data.rows.length > 1;
    const hint = make("div.question", several ? `The answer: choose a ${data.outputNoun}` : "The answer");
    if (showFlags && several && data.rows.some((row) => row.openRanking)) hint.append(` (${data.openSign} ranking still open)`);
    const list = make("div.choices", "", { role: "listbox", "aria-label": "Parts of the answer", "aria-orientation": "horizontal" });
    const heading = make("div.heading", "", { role: "heading", "aria-level": 2, "aria-live": "polite" });
    data.rows.forEach((row, index) => {
      const { contrast, openRanking, warning } = row;
      const choice = list.appendChild(make("span.choice", "", { role: "option" }));
      choice.append(row.isWhole ? "whole answer" : quoted(row.short, row.label));
      if (contrast) choice.append(" not ", quoted(contrast));
      if (showFlags && hasFailed(row)) choice.append(make("span.flag", "⚠", { role: "img", "aria-label": "not sufficient" }));
      else if (showFlags && openRanking) choice.append(make("span.open", data.openSign, { role: "img", "aria-label": "ranking still open" }));
      else if (showFlags && warning) choice.append(make("span.flag", "⚠", { role: "img", "aria-label": "has a warning" }));
      choice.addEventListener("click", () => choose(index));
    });
    onArrowKeys(list, ".reagent-choice", (_, index) => choose(index));
    const show = (target) => {
      const row = data.rows[target];
      [...list.children].forEach((node, index) => {
        node.setAttribute("aria-selected", String(index === target));
        node.tabIndex = index === target ? 0 : -1;
      });
      heading.replaceChildren(...captionNodes(row.question), row.probability && ` (${row.probability})`);
    };
    return { nodes: [hint, list, heading], show };
  };

  // A click on a word of the answer in the text chooses it.
  const onAnswerClick = (context, data, choose) =>
    context.addEventListener("click", (event) => {
      const output = event.target.closest("[data-output]")?.dataset.output;
      if (output !== undefined) choose(Number(output) + (data.rows[0].isWhole ? 1 : 0));
    });

  const hasFailed = (row) => row.sufficiency !== null && !row.sufficiency[0];

  const showFailedTest = (failure, row) => {
    failure.replaceChildren(...(hasFailed(row) ? ["⚠ ", ...captionNodes(row.sufficiency[1])] : []));
  };

  const showWarning = (caution, data, row) => {
    const sign = row.openRanking ? data.openSign : "⚠";
    caution.textContent = row.warning && `${sign} ${row.warning}`;
    caution.classList.toggle("reagent-mild", row.openRanking);
  };

  // --- the keyboard: one tab stop for each list, arrow keys inside it ---

  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const onArrowKeys = (list, selector, act) =>
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

  // --- redrawing, for example when results arrive: keeps the focus and the scroll positions ---

  const redraw = (element, draw) => {
    const focused = document.activeElement;
    const kind = focused && element.contains(focused) ? "." + focused.classList[0] : null;
    const index = kind ? [...element.querySelectorAll(kind)].indexOf(focused) : -1;
    const scrolled = [...element.querySelectorAll(".reagent-context")].map((context) => context.scrollTop);
    draw();
    scrolled.forEach((top, i) => {
      const context = element.querySelectorAll(".reagent-context")[i];
      if (context) context.scrollTop = top;
    });
    const node = kind && element.querySelectorAll(kind)[index];
    if (node) node.focus({ preventScroll: true });
  };

  return {
    make, quoted, shortName, captionNodes, score, ranking, pieceWeight, largestWeight, drawText, drawTemplate, appendMark,
    reveal, legend, linkGroups, groupList, drawGroups, highlight, cell, emptyHint, bar, initialTarget, outputChooser,
    onAnswerClick, showFailedTest, showWarning, onArrowKeys, redraw, drawFacts, appendInk, spaceAfter,
  };
}

/* Draws one explanation into `element` and replaces its content. A second call keeps the chosen output
   token, the inspected context token, the focus and the scroll position. */
function reagentView(element, data) {
  "use strict";
  const {
    make, quoted, shortName, captionNodes, score, ranking, pieceWeight, largestWeight, drawText, drawTemplate, appendMark,
    reveal, legend, linkGroups, groupList, drawGroups, highlight, cell, emptyHint, bar, initialTarget, outputChooser,
    onAnswerClick, showFailedTest, showWarning, onArrowKeys, redraw, drawFacts,
  } = reagentParts();
  let target = initialTarget(element, data);
  let row = null; // the texts about the chosen output token
  let order = []; // positions of the context, most important first
  let current = element.dataset.position ? Number(element.dataset.position) : null; // the inspected position

  // The positions that are drawn as one piece, by each of them.
  const shared = new Map(
    data.pieces.flatMap(([, , positions]) => (positions.length > 1 ? positions.map((position) => [position, positions]) : [])),
  );
  const name = (position) => quoted(data.tokens[position].label);
  const signed = (value, error) => {
    const sign = value < 0 ? "−" : "+";
    return sign + Math.abs(value).toFixed(data.digits) + (error ? " ± " + error.toFixed(data.digits) : "");
  };
  const stderr = (position) => (row.stderr.length ? row.stderr[position] : null);
  const effect = (position) => signed(row.effects[position], stderr(position));
  const effectHead = (errors) => `effect${errors.some(Boolean) ? " ± stderr" : ""}${data.unit ? ` (${data.unit})` : ""}`;
  const letters = (position) => row.groupLetters[position] || "";
  const openRanks = (position) => row.openRanks[position] || ""; // the list is empty without standard errors

  // --- parts that change with the chosen output token ---

  const rank = (position) =>
    `rank ${openRanks(position) || order.indexOf(position) + 1} of ${order.length}` +
    (openRanks(position) ? " (not settled)" : "");

  const numbers = (position) => {
    const token = data.tokens[position];
    const parts = token.protected
      ? ["protected: never removed"]
      : ["score " + score(row.scores[position]), rank(position)];
    if (row.effects.length && !token.protected) parts.push(`effect ${effect(position)} ${data.unit}`.trim());
    const together = shared.get(position);
    if (together && Math.max(...together) < row.start) {
      parts.push(`all ${together.length} ${data.noun}s of this text: score ${score(pieceWeight(row, together))}`);
    }
    if (letters(position)) parts.push("group " + [...letters(position)].join(", "));
    const ids = token.ids.length > 1 ? "token ids " : "token id ";
    parts.push(`position ${position}`, token.ids.length > 8 ? `${token.ids.length} tokens` : ids + token.ids.join(", "));
    return parts.join(" · ");
  };

  const drawContext = () => {
    drawText(context, data, target, (position) => ({
      role: "option",
      tabindex: -1,
      "aria-label": `${data.tokens[position].label}, ${numbers(position)}`,
    }));
    const first = context.querySelector(".reagent-token");
    if (first) first.tabIndex = 0;
    context.setAttribute("role", first ? "listbox" : "group"); // an empty listbox is not valid
  };

  const headRow = (texts) => {
    const node = make("div.row", "", { role: "row" });
    node.append(...texts.map((text) => make("div.head", text, { role: "columnheader" })));
    return node;
  };

  const drawLevels = () => {
    levels.replaceChildren();
    for (const [noun, units] of row.levels) {
      levels.append(headRow([noun, "score", ...(row.effects.length ? [effectHead(units.map((unit) => unit[4]))] : [])]));
      for (const [short, full, value, change, error, strongest] of units) {
        const node = levels.appendChild(make("div.row", "", { role: "row", "data-position": strongest }));
        cell(node, "name", quoted(short, full));
        cell(node, "number", score(value));
        if (change !== null) cell(node, "number", signed(change, error));
      }
    }
  };

  const drawTop = () => {
    const best = order.slice(0, data.topCount).filter((position) => row.scores[position] > 0);
    const head = ["#", data.noun, "at", "score", ""];
    if (row.effects.length) head.push(effectHead(best.map(stderr)));
    const scale = effectScale(best);
    const heads = headRow(head);
    if (scale) heads.append(axisLabels(scale));
    top.replaceChildren(heads, ...best.map((position, index) => topRow(position, index + 1, scale)));
    if (!best.length) top.replaceChildren(emptyHint(data));
    top.setAttribute("role", best.length ? "table" : "group");
    notes.replaceChildren();
    if (best.some(openRanks)) notes.append(make("div.note", data.openRanksNote));
    if (best.length && row.effectNote.length) notes.appendChild(make("div.note")).append(...captionNodes(row.effectNote));
    whatIf.replaceChildren();
    if (row.whatIf.length) whatIf.append(make("div.hint", "What the model would have answered"));
    for (const [position, parts] of row.whatIf) {
      whatIf.appendChild(make("div.what-if-line", "", { "data-position": position })).append(...captionNodes(parts));
    }
  };

  const topRow = (position, number, scale) => {
    const node = make("div.row", "", { role: "row", "data-position": position });
    const [value, largest] = [row.scores[position], row.scores[order[0]]];
    const open = openRanks(position);
    const spoken = open ? { role: "img", "aria-label": open.replace("–", " to ") + ", rank not settled" } : {};
    cell(node, "number", make("span.rank", open || String(number), spoken));
    cell(node, "name", shortName(data, position));
    appendMark(node.lastChild, data, target, position);
    cell(node, "number", String(position));
    cell(node, "number", score(value));
    cell(node, "bar", bar(value / largest));
    if (row.effects.length) cell(node, "number", effect(position));
    if (row.stderr.length) cell(node, "whisker", whisker(position, scale));
    return node;
  };

  // Maps effects to percentages of the axis that all rows share.
  const effectScale = (positions) => {
    if (!row.stderr.length) return null;
    const ends = [-1, 1].flatMap((side) =>
      positions.map((position) => row.effects[position] + side * row.stderr[position]),
    );
    const low = Math.min(0, ...ends);
    const high = Math.max(0, ...ends);
    const scale = (value) => (100 * (value - low)) / (high - low || 1);
    return Object.assign(scale, { low, high });
  };

  // The numbers at both ends of the axis, and at 0 between them.
  const axisLabels = (scale) => {
    const head = make("div.head", "", { role: "columnheader", "aria-label": "effect on an axis" });
    head.classList.add("reagent-whisker");
    const axis = head.appendChild(make("div.ticks", "", { "aria-hidden": "true" }));
    const values = [...new Set([scale.low, 0, scale.high])].filter((value) => value === 0 || Math.abs(scale(value) - scale(0)) > 25);
    for (const value of values) {
      const tick = axis.appendChild(make("span.tick", value === 0 ? "0" : signed(value).replace("+", "")));
      tick.style.left = scale(value) + "%";
    }
    return head;
  };

  // The effect as a point, and its standard error as a line.
  const whisker = (position, scale) => {
    const [value, error] = [row.effects[position], row.stderr[position]];
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
    order = ranking(data, target);
    chooser.show(target);
    showFailedTest(failure, row);
    showWarning(caution, data, row);
    drawGroups(groups, row);
    largest.textContent = score(largestWeight(data, row));
    drawContext();
    drawLevels();
    drawTop();
    if (current !== null && current >= row.start) current = null;
    inspect(current);
  };

  const inspect = (position) => {
    current = position;
    element.dataset.position = position ?? "";
    highlight(element, position);
    linkGroups(element, position === null ? "" : letters(position));
    if (position === null) readout.replaceChildren(`To see the numbers of a ${data.noun}, point at it, tap it or use the arrow keys.`);
    else readout.replaceChildren(name(position), " " + numbers(position));
  };

  const watch = (list, ...types) => {
    for (const type of types) {
      list.addEventListener(type, (event) => {
        const node = event.target.closest("[data-position]");
        if (!node) return;
        inspect(Number(node.dataset.position));
        if (list !== context) reveal(context, node.dataset.position);
      });
    }
  };

  // --- parts that stay ---

  const facts = drawFacts(data.facts);
  if (!data.rows.length) {
    element.replaceChildren(make("div.hint", "There is no output token to explain."), facts);
    return;
  }
  const chooser = outputChooser(data, choose, true);
  const failure = make("div.failure", "", { role: "status" });
  const caution = make("div.caution", "", { role: "status" });
  const template = drawTemplate(element, data);
  const context = make("div.context", "", { role: "listbox", "aria-label": `Context ${data.noun}s`, translate: "no", lang: "" });
  const largest = make("span.largest");
  const groups = groupList(element);
  const readout = make("div.readout", "", { "aria-live": "polite" });
  const levels = make("div.levels", "", { role: "table", "aria-label": "Most important parts, coarse to fine" });
  const top = make("div.top", "", { role: "table", "aria-label": `Most important ${data.noun}s` });
  if (!["token", "word"].includes(data.noun)) top.classList.add("reagent-wordy");
  const notes = make("div.notes");
  const whatIf = make("div.what-if");

  const trace = data.trace ? [reagentTrace(data.trace, { make, quoted, captionNodes, onArrowKeys })] : [];

  onArrowKeys(context, ".reagent-token", (node) => inspect(Number(node.dataset.position)));
  watch(context, "mouseover", "focusin", "click");
  onAnswerClick(context, data, choose);
  for (const list of [top, whatIf]) watch(list, "mouseover", "click");
  watch(levels, "click");
  redraw(element, () => {
    element.replaceChildren(
      ...chooser.nodes, failure, caution, ...template, context, legend(largest), groups, readout, ...trace, levels, top,
      notes, whatIf, facts,
    );
    choose(target);
  });
}

/* Draws explanations of one output by several methods into `element`. `list` is the result of
   reagent.views.comparison.to_view_data. An open method shows its whole view. */
function reagentCompare(element, list) {
  "use strict";
  const {
    make, shortName, score, ranking, drawText, drawTemplate, appendMark, legend, linkGroups, groupList, drawGroups,
    highlight, cell, emptyHint, bar, initialTarget, outputChooser, onAnswerClick, showFailedTest, showWarning, redraw,
  } = reagentParts();
  const first = list[0].view;
  const open = [...element.querySelectorAll(".reagent-details")].filter((details) => details.open);
  const openNames = open.map((details) => details.dataset.name);
  let target = initialTarget(element, first);

  const topRow = (data, position, best) => {
    const value = data.rows[target].scores[position];
    const node = make("div.row", "", { role: "row", "data-position": position });
    cell(node, "name", shortName(data, position));
    appendMark(node.lastChild, data, target, position);
    cell(node, "number", score(value));
    cell(node, "bar", bar(value / data.rows[target].scores[best]));
    return node;
  };

  // The block of a method, and the function that draws it for the chosen output token.
  const block = ({ name, cost, view: data }) => {
    const node = make("div.method", "", { role: "group", "aria-label": name });
    const details = make("details.details", "", { "data-name": name });
    details.open = openNames.includes(name);
    const summary = details.appendChild(make("summary.summary"));
    summary.append(make("bdi.method-name", name), " ", make("span.cost", cost));
    const full = details.appendChild(make("div.full"));
    const failure = make("div.failure");
    const caution = make("div.caution");
    const groups = groupList(node);
    const context = make("div.context", "", { translate: "no", lang: "" });
    const top = make("div.top", "", { role: "table", "aria-label": `Most important ${data.noun}s` });
    node.append(details, failure, caution, context, groups, top);
    onAnswerClick(context, data, (next) => choose(next));
    const draw = () => {
      const best = ranking(data, target).filter((position) => data.rows[target].scores[position] > 0);
      showFailedTest(failure, data.rows[target]);
      showWarning(caution, data, data.rows[target]);
      drawGroups(groups, data.rows[target]);
      drawText(context, data, target, (position) => ({ title: "score " + score(data.rows[target].scores[position]) }));
      top.replaceChildren(...best.slice(0, 3).map((position) => topRow(data, position, best[0])));
      if (!best.length) top.replaceChildren(emptyHint(data));
      top.setAttribute("role", best.length ? "table" : "group");
      full.dataset.target = target;
      if (details.open) reagentView(full, data);
      else full.replaceChildren();
    };
    details.addEventListener("toggle", draw);
    return { node, draw, link: (position) => linkGroups(node, data.rows[target].groupLetters[position]) };
  };

  const choose = (next) => {
    target = next;
    element.dataset.target = target;
    chooser.show(target);
    for (const { draw } of blocks) draw();
  };

  const chooser = outputChooser(first, choose, false);
  const blocks = list.map(block);
  const template = drawTemplate(element, first);
  const methods = make("div.methods");
  methods.append(...blocks.map(({ node }) => node));
  methods.addEventListener("mouseover", (event) => {
    const node = event.target.closest("[data-position]");
    highlight(methods, node ? Number(node.dataset.position) : null);
    if (node) for (const { link } of blocks) link(node.dataset.position);
  });
  redraw(element, () => {
    element.replaceChildren(...chooser.nodes, ...template, legend("each method’s largest"), methods);
    choose(target);
  });
}

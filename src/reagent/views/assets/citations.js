/* Draws citations into `element`. `data` is the result of reagent.views.citations_page.to_view_data. A part of the answer
   is chosen, and its sources are shaded in the documents; or a sentence of a document is chosen, and the parts of the
   answer that rest on it are shaded. */
function reagentCitations(element, data) {
  "use strict";
  const { make, quoted, legend, onArrowKeys, drawFacts, appendInk, spaceAfter } = reagentParts();
  const CLEAR_WEIGHT = 0.1; // importance from which a sentence is never folded
  const NAMED_WEIGHT = 0.05; // importance from which a part is said to depend on a sentence
  const unfolded = new Set(); // numbers of documents
  const chosen = { part: Math.min(Number(element.dataset.target || 0), data.rows.length - 1), sentence: null };

  const heading = (kind, text, level) => make(`div.${kind}`, text, { role: "heading", "aria-level": level });
  const toggle = (kind, attributes) =>
    make(`span.${kind}`, "", { role: "button", "aria-pressed": "false", tabindex: -1, ...attributes });
  const all = (selector) => [...element.querySelectorAll(selector)];
  const footnote = (sentence) => (data.sentences[sentence][2] ? `[${data.sentences[sentence][2]}]` : "");

  // --- the answer ---

  const drawAnswer = () => {
    const answer = make("div.answer-text", "", { role: "group", "aria-label": "The answer", translate: "no", lang: "" });
    for (const [text, index] of data.answer) {
      if (index === null) answer.append(text);
      else answer.append(drawPart(text, index));
    }
    return answer;
  };

  const drawPart = (text, index) => {
    const { cited, fromDocuments } = data.rows[index];
    const node = toggle("part", { "data-row": index });
    appendInk(node, text);
    for (const sentence of cited) node.append(make("sup.footnote", footnote(sentence), { "data-sentence": sentence }));
    if (!fromDocuments) {
      node.classList.add("reagent-unsupported");
      node.append(" ", make("span.tag", data.notCited));
    }
    return node;
  };

  const drawWhole = () => {
    if (!data.rows[0].isWhole) return [];
    const node = toggle("part", { "data-row": 0 });
    node.classList.add("reagent-choice");
    node.append("whole answer");
    return [node];
  };

  // --- the documents ---

  const drawDocument = ({ name, isLong, pieces }, number) => {
    const node = make("div.document", "", { role: "group", "aria-label": `Document ${name}`, "data-document": number });
    const head = node.appendChild(make("div.document-head"));
    head.append(make("bdi.document-name", name, { translate: "no" }), make("span.tag"));
    if (isLong) head.append(foldButton(number));
    const text = node.appendChild(make("div.document-text", "", { translate: "no", lang: "" }));
    for (const [piece, sentence] of pieces) {
      if (sentence === null) text.append(piece);
      else {
        if (isLong) text.append(gapButton(number));
        text.append(drawSentence(piece, sentence));
      }
    }
    return node;
  };

  const drawSentence = (text, sentence) => {
    const node = toggle("sentence", { "data-sentence": sentence });
    appendInk(node, text);
    if (footnote(sentence)) node.append(make("sup.footnote", footnote(sentence)));
    node.append(make("span.tag"), spaceAfter(text));
    return node;
  };

  const foldButton = (number) => {
    const button = make("button.fold", "", { type: "button", "aria-expanded": "false" });
    button.addEventListener("click", () => {
      if (!unfolded.delete(number)) unfolded.add(number);
      update();
    });
    return button;
  };

  // Stands for folded sentences after it; it has no text where none are folded.
  const gapButton = (number) => {
    const button = make("button.gap", "", { type: "button" });
    button.classList.add("reagent-folded");
    button.addEventListener("click", () => {
      unfolded.add(number);
      update();
      button.nextElementSibling.focus();
    });
    return button;
  };

  // Long documents show their first sentence, the sentences that matter, and their neighbours.
  const fold = (number) => {
    const node = element.querySelector(`[data-document="${number}"]`);
    const sentences = [...node.querySelectorAll(".reagent-sentence")];
    const matters = sentences.map(({ dataset: { sentence } }, i) => i === 0 || isClear(Number(sentence)));
    const isOpen = unfolded.has(number);
    let keeps = sentences.map((_, i) => isOpen || matters[i - 1] || matters[i] || matters[i + 1] || false);
    keeps = keeps.map((kept, i) => kept || ((keeps[i - 1] ?? true) && (keeps[i + 1] ?? true))); // no gap of one sentence
    sentences.forEach((sentence, i) => {
      sentence.classList.toggle("reagent-folded", !keeps[i]);
      const gap = sentence.previousElementSibling;
      const isFirst = !keeps[i] && (keeps[i - 1] ?? true);
      const end = isFirst ? keeps.indexOf(true, i) : i;
      gap.textContent = isFirst ? `⋯ ${(end < 0 ? sentences.length : end) - i} sentences ⋯` : "";
      gap.classList.toggle("reagent-folded", !isFirst);
    });
    const button = node.querySelector(".reagent-fold");
    button.hidden = !isOpen && keeps.every(Boolean);
    button.textContent = isOpen ? "fold" : `show all ${sentences.length} sentences`;
    button.setAttribute("aria-expanded", String(isOpen));
  };

  const isClear = (sentence) =>
    sentence === chosen.sentence ||
    data.sentences[sentence][2] > 0 ||
    (chosen.part !== null && data.rows[chosen.part].weights[sentence] >= CLEAR_WEIGHT);

  // --- what is chosen ---

  const choosePart = (index) => {
    Object.assign(chosen, { part: index, sentence: null });
    element.dataset.target = index;
    update();
  };
  const chooseSentence = (index) => {
    Object.assign(chosen, { part: null, sentence: index });
    update();
  };

  const update = () => {
    updateAnswer();
    updateDocuments();
    updatePanel();
    data.documents.forEach(({ isLong }, number) => isLong && fold(number));
    for (const group of [answerBox, ...documentList.children]) {
      const toggles = [...group.querySelectorAll('[role="button"]:not(.reagent-folded)')];
      const pressed = toggles.find((node) => node.getAttribute("aria-pressed") === "true");
      for (const node of toggles) node.tabIndex = node === (pressed ?? toggles[0]) ? 0 : -1; // one tab stop
    }
  };

  const shade = (node, weight) => node.querySelector(".reagent-ink")?.style.setProperty("--weight", weight.toFixed(3));

  const updateAnswer = () => {
    for (const node of all(".reagent-part")) {
      const row = data.rows[node.dataset.row];
      node.setAttribute("aria-pressed", String(Number(node.dataset.row) === chosen.part));
      shade(node, chosen.sentence === null ? 0 : row.weights[chosen.sentence]);
      node.classList.toggle("reagent-depends", chosen.sentence !== null && row.cited.includes(chosen.sentence));
    }
  };

  const updateDocuments = () => {
    const row = chosen.part === null ? null : data.rows[chosen.part];
    const linked = chosen.sentence === null ? [] : data.partners[chosen.sentence];
    for (const node of all(".reagent-sentence")) {
      const sentence = Number(node.dataset.sentence);
      const isCited = row !== null && row.cited.includes(sentence);
      node.setAttribute("aria-pressed", String(sentence === chosen.sentence));
      node.classList.toggle("reagent-cited", isCited);
      node.classList.toggle("reagent-linked", linked.includes(sentence));
      shade(node, row === null ? 0 : row.weights[sentence]);
      node.querySelector(".reagent-tag").textContent = isCited ? describe(row, sentence) : "";
    }
    all(".reagent-document").forEach((node, number) => {
      node.querySelector(".reagent-document-head .reagent-tag").textContent = row === null ? "" : row.documents[number];
    });
  };

  const describe = ({ marks, numbers }, sentence) => `${marks[sentence] || "contributes"}: ${numbers[sentence]}`;

  // --- the panel: the chosen part and its sources, or the chosen source and the parts that depend on it ---

  const updatePanel = () => {
    if (chosen.part !== null) drawSources(data.rows[chosen.part]);
    else drawDependents(chosen.sentence);
  };

  const drawSources = (row) => {
    const title = make("div.panel-title");
    title.append(row.isWhole ? "The whole answer" : quoted(row.label), ` is ${row.caption}.`);
    const lines = row.shown.map((sentence) => {
      const [document, text] = data.sentences[sentence];
      const line = panelLine(() => reveal(".reagent-sentence", "sentence", sentence, chooseSentence));
      line.append(footnote(sentence), " ", make("bdi.document-name", data.documents[document].name), " ", quoted(text));
      line.append(make("span.tag", describe(row, sentence)));
      return line;
    });
    panel.replaceChildren(title, ...lines);
  };

  const drawDependents = (sentence) => {
    const [document, text] = data.sentences[sentence];
    const title = make("div.panel-title", footnote(sentence));
    title.append(" ", quoted(text), " of ", make("bdi.document-name", data.documents[document].name));
    const lines = data.rows.flatMap((row, index) => {
      if (row.isWhole || (row.weights[sentence] < NAMED_WEIGHT && !row.cited.includes(sentence))) return [];
      const line = panelLine(() => reveal(".reagent-part", "row", index, choosePart));
      line.append(quoted(row.label), make("span.tag", describe(row, sentence)));
      return [line];
    });
    const whole = data.rows[0];
    const note = lines.length ? "These sentences of the answer depend on it:" : `No sentence of the answer depends on it (${whole.numbers[sentence]}).`;
    panel.replaceChildren(title, make("div.hint", note), ...lines);
  };

  const panelLine = (act) => {
    const line = make("button.source", "", { type: "button" });
    line.addEventListener("click", act);
    return line;
  };

  // Chooses something elsewhere, and moves the focus there, because the panel is drawn anew.
  const reveal = (selector, name, value, choose) => {
    choose(value);
    const node = all(selector).findLast((one) => Number(one.dataset[name]) === value);
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "nearest" });
  };

  // The first source of a chosen part comes into sight.
  const revealSource = (index) => {
    const [first] = data.rows[index].cited;
    if (first !== undefined) element.querySelector(`.reagent-sentence[data-sentence="${first}"]`).scrollIntoView({ block: "nearest" });
  };

  // --- the smallest context ---

  const drawPruned = () => {
    const details = make("details.pruned");
    const summary = details.appendChild(make("summary.summary"));
    summary.append(make("b.pruned-name", "Smallest context"), " ", data.pruned.caption);
    for (const [name, text] of data.pruned.documents) {
      details.append(make("bdi.document-name", name, { translate: "no" }));
      details.append(make("div.document-text", text, { translate: "no", lang: "" }));
    }
    return data.pruned.documents.length ? details : make("div.pruned", data.pruned.caption);
  };

  // --- all of it ---

  const onClick = (event) => {
    const node = event.target.closest("[data-sentence]") ?? event.target.closest("[data-row]");
    if (!node || event.target.closest("button")) return;
    if (node.dataset.row !== undefined) {
      choosePart(Number(node.dataset.row));
      revealSource(chosen.part);
    } else if (node.matches(".reagent-sentence")) chooseSentence(Number(node.dataset.sentence));
    else reveal(".reagent-sentence", "sentence", Number(node.dataset.sentence), chooseSentence);
  };

  const answerBox = make("div.answer-box");
  const panel = make("div.panel", "", { "aria-live": "polite" });
  const documentList = make("div.documents");
  const frame = make("div.citations-frame");
  const layout = frame.appendChild(make("div.citations"));
  const side = layout.appendChild(make("div.citations-side"));
  answerBox.append(...drawWhole(), drawAnswer());
  side.append(answerBox, panel);
  documentList.append(...data.documents.map(drawDocument));
  layout.append(documentList);
  onArrowKeys(answerBox, ".reagent-part", (node) => choosePart(Number(node.dataset.row)));
  for (const node of documentList.children)
    onArrowKeys(node, ".reagent-sentence:not(.reagent-folded)", (one) => chooseSentence(Number(one.dataset.sentence)));
  layout.addEventListener("click", onClick);
  element.replaceChildren(
    heading("citations-question", data.question, 2),
    make("div.hint", "Choose a sentence of the answer to see its sources, or a sentence of a document to see what depends on it."),
    frame,
    drawPruned(),
    ...(data.screening ? [make("div.notes", data.screening)] : []),
    legend("1", "importance"),
    make("div.notes", data.legend.join(" · ")),
    drawFacts(data.facts),
  );
  update();
}

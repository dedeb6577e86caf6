/* The result: the answer while it is generated, progress bars, views and downloads.

   The result shows one entry, or one entry for each compared method. An entry has a state and, as soon as they are
   available, its request, id, jobState, before (the number of jobs before it in the queue), answer, progress, view and
   saved (the JSON of the explanation or citations). */
import { byId, createElement } from "./elements.js";

const PROGRESS_TEXTS = { queued: "waiting", running: "reading the prompt", answering: "generating the answer" };

export const ADDRESSES = { explanation: "e", citations: "c" }; // of saved results
const FORMATS = { explanation: ["HTML", "JSON", "PNG"], citations: ["HTML", "JSON", "Markdown"] };
const PATHS = { explanation: "explanations", citations: "citations" };
const SUFFIXES = { HTML: ".html", JSON: ".json", PNG: ".png", Markdown: ".md" };

export const kindOf = (view) => view.kind ?? "explanation";
export const pathOf = ({ id, view }) => `${PATHS[kindOf(view)]}/${encodeURIComponent(id)}`;
export const isRunning = ({ state }) => state === "running";
export const addressOf = (kind, entries) => `#/${kind}/${entries.map(({ id }) => encodeURIComponent(id)).join("/")}`;
export const savedAddress = (entries) => addressOf(ADDRESSES[kindOf(entries[0].view)], entries);
export const selectedRow = (view) => view?.rows[Number(byId("view").dataset.target || 0)]; // the answer, or a part of it

export function clearResult() {
  const view = byId("view").cloneNode(false); // a copy without a selected token and without listeners
  for (const name of Object.keys(view.dataset)) delete view.dataset[name];
  byId("view").replaceWith(view);
  for (const id of ["introduction", "answer", "contrast", "downloads", "running", "cancelled"]) byId(id).hidden = true;
}

// --- running jobs ---

export function drawAnswer({ request, answer }) {
  const prompt = request?.prompt ?? request?.messages?.at(-1).content ?? (request ? request.question + "\n" : "");
  const space = answer.length - answer.trimStart().length; // not underlined
  byId("answer").replaceChildren(
    createElement("span", prompt),
    answer.slice(0, space),
    createElement("b", answer.slice(space)),
  );
  byId("answer").hidden = false;
}

export function drawProgress(entries) {
  const running = entries.filter(isRunning);
  byId("running").hidden = !running.length;
  byId("view").setAttribute("aria-busy", String(running.length > 0));
  byId("progress-bars").replaceChildren(...running.map(createProgressBar));
}

function progressText({ request, progress, answer, before, jobState = "queued" }) {
  if (progress) return `${progress.done} of at most ${progress.total}`;
  if (jobState === "queued" && before > 0) return `waiting: ${before} ${before > 1 ? "explanations" : "explanation"} before this one`;
  return PROGRESS_TEXTS[answer && !request?.answer ? "answering" : jobState];
}

function createProgressBar(entry) {
  const { request, progress } = entry;
  const label = createElement("label");
  const attributes = progress ? { value: progress.done, max: progress.total } : {};
  const text = progressText(entry);
  label.append(
    createElement("span", request ? `${request.method ?? (request.documents ? "cite" : "reagent")}: ${text}` : text),
    createElement("progress", "", attributes),
  );
  return label;
}

export function drawCancelled(entries) {
  const partial = entries.some(({ view }) => view);
  byId("cancelled").querySelector("p").textContent = partial ? "Cancelled. The result is incomplete." : "Cancelled.";
  byId("run-again").hidden = !entries.every(({ request }) => request);
  byId("cancelled").hidden = false;
}

/* Scroll to the result if it is out of sight: on a phone it is below the form and above the history. */
export function scrollToResult() {
  const { top } = byId("result").getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) byId("result").scrollIntoView();
}

// --- views ---

const factOf = (view, name) => Object.fromEntries(view.facts)[name] ?? "";
const isCitations = ({ view }) => kindOf(view) === "citations";
const drawOne = (node, entry) => (isCitations(entry) ? reagentCitations : reagentView)(node, entry.view);
const hasSameTokens = (one, two) =>
  JSON.stringify(one.pieces) === JSON.stringify(two.pieces) && one.rows.length === two.rows.length;

export function drawViews(entries) {
  const ready = entries.filter(({ view }) => view);
  const first = ready[0].view;
  byId("answer").hidden = true;
  if (entries.length === 1) drawOne(byId("view"), ready[0]);
  else if (!ready.some(isCitations) && first.rows.length && ready.every(({ view }) => hasSameTokens(view, first))) {
    reagentCompare(
      byId("view"),
      ready.map(({ view }, i) => ({ name: nameOf(ready, i), cost: factOf(view, "cost"), view })),
    );
  } else drawSeparately(ready);
}

function nameOf(entries, index) {
  const names = entries.map(({ view }) => factOf(view, "method") || "cite");
  const isUnique = names.indexOf(names[index]) === names.lastIndexOf(names[index]);
  return isUnique ? names[index] : `${names[index]} (${index + 1})`;
}

// Methods may split a long text into different units, and files may contain different texts.
function drawSeparately(entries) {
  const parts = [...byId("view").querySelectorAll(".part > div")];
  delete byId("view").dataset.target; // each part has its own
  byId("view").replaceChildren(
    ...entries.map((entry, i) => {
      const part = createElement("div", "", { class: "part" });
      part.append(createElement("h3", nameOf(entries, i)), parts[i] ?? createElement("div"));
      drawOne(part.lastElementChild, entry);
      return part;
    }),
  );
}

// --- links and downloads of finished results, and the form for a contrast ---

export function drawDownloads(entries) {
  const saved = entries.filter(({ id }) => id);
  const link = createElement("li");
  link.append(createElement("a", "Link to this result", { href: saved.length ? savedAddress(saved) : "" }));
  byId("downloads").replaceChildren(
    link,
    ...saved.map((entry, i) => createDownloads(entry, saved.length > 1 ? nameOf(saved, i) : "")),
  );
  byId("downloads").hidden = !saved.length;
  byId("contrast").hidden = entries.some(isCitations) || !("target" in byId("view").dataset);
  byId("contrast").reset();
  const { rows, focus, question } = entries[0].view;
  if (question) document.title = `${question} – reagent`;
  else if (rows.length) document.title = `${rows[focus].question.map(([text]) => text).join("")} – reagent`;
}

function createDownloads(entry, name) {
  const item = createElement("li", name && `${name}: `);
  for (const format of FORMATS[kindOf(entry.view)]) {
    const suffix = SUFFIXES[format];
    const href = `api/${pathOf(entry)}${format === "JSON" ? "" : suffix}`;
    const label = `Download ${name} ${format}`.replace("  ", " ");
    item.append(createElement("a", format, { href, download: `reagent-${entry.id}${suffix}`, "aria-label": label }));
  }
  return item;
}

export function labelContrast(view) {
  byId("alternative-label").replaceChildren(
    "Why ",
    createElement("bdi", selectedRow(view)?.short ?? "", { translate: "no" }),
    " and not",
  );
}

/* What is shown of the entries that the result is about: the answer as it comes, bars, views, what can be kept.

   An entry has a state and, as far as they are known, its request, id, progress, view and explanation. */
import { at, make } from "./elements.js";

const WAITING = { queued: "waiting in line", running: "reading the prompt", answering: "the model answers" };

export const isRunning = ({ state }) => state === "running";
export const addressOf = (kind, entries) => `#/${kind}/${entries.map(({ id }) => encodeURIComponent(id)).join("/")}`;
export const chosen = () => Number(at("view").dataset.target || 0); // output token

export function clearResult() {
  const view = at("view").cloneNode(false); // a fresh one: no chosen token, no listeners
  for (const name of Object.keys(view.dataset)) delete view.dataset[name];
  at("view").replaceWith(view);
  for (const id of ["empty", "answer", "contrast", "keep", "running"]) at(id).hidden = true;
}

// --- while it runs ---

export function drawAnswer({ request, said }) {
  const asked = request?.prompt ?? request?.messages.at(-1).content ?? "";
  const space = said.length - said.trimStart().length; // it is not underlined
  at("answer").replaceChildren(make("span", asked), said.slice(0, space), make("b", said.slice(space)));
  at("answer").hidden = false;
}

export function drawRunning(entries) {
  const running = entries.filter(isRunning);
  at("running").hidden = !running.length;
  at("view").setAttribute("aria-busy", String(running.length > 0));
  at("bars").replaceChildren(...running.map(bar));
}

function bar({ request, progress, said, place = "queued" }) {
  const label = make("label");
  const known = progress ? { value: progress.done, max: progress.total } : {};
  const words = progress ? `${progress.done} of at most ${progress.total}` : WAITING[said ? "answering" : place];
  label.append(make("span", request ? `${request.method}: ${words}` : words), make("progress", "", known));
  return label;
}

// --- views ---

const fact = (view, name) => Object.fromEntries(view.facts)[name] ?? "";
const isSame = (one, two) => JSON.stringify(one.pieces) === JSON.stringify(two.pieces);

export function drawViews(entries) {
  const drawn = entries.filter(({ view }) => view);
  const first = drawn[0].view;
  at("answer").hidden = true;
  if (entries.length === 1) reagentView(at("view"), first);
  else if (first.rows.length && drawn.every(({ view }) => isSame(view, first))) {
    reagentCompare(at("view"), drawn.map(({ view }, i) => ({ name: nameOf(drawn, i), cost: fact(view, "cost"), view })));
  } else apart(drawn);
}

function nameOf(entries, index) {
  const names = entries.map(({ view }) => fact(view, "method"));
  const alone = names.indexOf(names[index]) === names.lastIndexOf(names[index]);
  return alone ? names[index] : `${names[index]} (${index + 1})`;
}

// Methods may cut a long text differently, and files may be about different texts: one view after the other.
function apart(entries) {
  const parts = [...at("view").querySelectorAll(".part > div")];
  delete at("view").dataset.target; // each has its own
  at("view").replaceChildren(
    ...entries.map(({ view }, i) => {
      const part = make("div", "", { class: "part" });
      part.append(make("h3", nameOf(entries, i)), parts[i] ?? make("div"));
      reagentView(part.lastElementChild, view);
      return part;
    }),
  );
}

// --- what can be done with explanations that are whole ---

export function drawKeep(entries, kinds) {
  const saved = entries.filter(({ id }) => id);
  const link = make("li");
  link.append(make("a", "Link to this", { href: addressOf("e", saved) }));
  at("keep").replaceChildren(link, ...saved.map((entry, i) => downloads(entry, saved.length > 1 ? nameOf(saved, i) : "", kinds)));
  at("keep").hidden = !saved.length;
  at("contrast").hidden = !("target" in at("view").dataset);
  at("contrast").reset();
  const { rows, focus } = entries[0].view;
  if (rows.length) document.title = `${rows[focus].question.map(([text]) => text).join("")} – reagent`;
}

function downloads({ id }, name, kinds) {
  const item = make("li", name && `${name}: `);
  for (const kind of kinds) {
    const end = "." + kind.toLowerCase();
    const href = `api/explanations/${encodeURIComponent(id)}${kind === "JSON" ? "" : end}`;
    item.append(make("a", kind, { href, download: `reagent-${id}${end}`, "aria-label": `Download ${name} ${kind}`.replace("  ", " ") }));
  }
  return item;
}

export function nameContrast(view) {
  const token = view?.tokens[view.inputs + chosen()];
  at("instead-label").replaceChildren("Why ", make("bdi", token?.short ?? "", { translate: "no" }), " and not");
}

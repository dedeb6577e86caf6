/* The jobs that wait or run and the recent results, as links. */
import { byId, createElement } from "./elements.js";
import { ADDRESSES } from "./result.js";

const EXCERPT_LENGTH = 60;
const characters = (text) => [...text.replace(/\s+/g, " ").trim()];

// The end of the prompt and the beginning of the output are shown.
const endOf = (text) => {
  const all = characters(text);
  return all.length > EXCERPT_LENGTH ? "… " + all.slice(-EXCERPT_LENGTH).join("").replace(/^\S{0,20} /, "") : all.join("");
};
const beginningOf = (text) => {
  const all = characters(text);
  return all.slice(0, EXCERPT_LENGTH).join("") + (all.length > EXCERPT_LENGTH ? " …" : "");
};

const STATE_NAMES = { running: "running", queued: "waiting" };

// A link to a saved result, or to a job that has not ended.
const createLink = ({ id, kind, prompt, completion, method, state }) => {
  const item = createElement("li");
  const href = `#/${state ? "j" : ADDRESSES[kind]}/${encodeURIComponent(id)}`;
  const link = item.appendChild(createElement("a", "", { href, dir: "auto", translate: "no", "data-id": id }));
  const ending = state ? createElement("i", STATE_NAMES[state]) : createElement("b", beginningOf(completion));
  link.append(createElement("span", endOf(prompt)), " ", ending, " ", createElement("bdi", method));
  return item;
};

export function drawHistory(results) {
  byId("no-history").hidden = results.length > 0;
  byId("history").replaceChildren(...results.map(createLink));
}

export function drawPending(jobs) {
  const counts = Object.entries(STATE_NAMES).map(([state, name]) => [jobs.filter((job) => job.state === state).length, name]);
  byId("queue").hidden = !jobs.length;
  byId("queue").textContent = counts.filter(([count]) => count).map((pair) => pair.join(" ")).join(", ");
  byId("pending").replaceChildren(...jobs.map(createLink));
}

/* Mark the jobs and results that are shown. */
export function markHistory(entries) {
  const ids = entries.map(({ id }) => id);
  for (const node of document.querySelectorAll(".links a")) {
    if (ids.includes(node.dataset.id)) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }
}

/* The explanations of this session, as links. */
import { byId, createElement } from "./elements.js";

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

const createLink = ({ id, prompt, completion, method }) => {
  const item = createElement("li");
  const link = item.appendChild(
    createElement("a", "", { href: `#/e/${encodeURIComponent(id)}`, dir: "auto", translate: "no", "data-id": id }),
  );
  link.append(
    createElement("span", endOf(prompt)),
    " ",
    createElement("b", beginningOf(completion)),
    " ",
    createElement("bdi", method),
  );
  return item;
};

export function drawHistory(explanations) {
  byId("no-history").hidden = explanations.length > 0;
  byId("history").replaceChildren(...explanations.map(createLink));
}

/* Mark the explanations that are shown. */
export function markHistory(entries) {
  const ids = entries.map(({ id }) => id);
  for (const node of byId("history").querySelectorAll("a")) {
    if (ids.includes(node.dataset.id)) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }
}

/* What was explained in this session, as links. */
import { at, make } from "./elements.js";

const BRIEF = 60;
const letters = (text) => [...text.replace(/\s+/g, " ").trim()];

// What stands around the place where the answer begins.
const ending = (text) => {
  const all = letters(text);
  return all.length > BRIEF ? "… " + all.slice(-BRIEF).join("").replace(/^\S{0,20} /, "") : all.join("");
};
const beginning = (text) => letters(text).slice(0, BRIEF).join("") + (letters(text).length > BRIEF ? " …" : "");

const link = ({ id, prompt, completion, method }) => {
  const item = make("li");
  const node = item.appendChild(
    make("a", "", { href: `#/e/${encodeURIComponent(id)}`, dir: "auto", translate: "no", "data-id": id }),
  );
  node.append(make("span", ending(prompt)), " ", make("b", beginning(completion)), " ", make("bdi", method));
  return item;
};

export function listHistory(saved) {
  at("no-history").hidden = saved.length > 0;
  at("history").replaceChildren(...saved.map(link));
}

export function markHistory(entries) {
  const ids = entries.map(({ id }) => id);
  for (const node of at("history").querySelectorAll("a")) {
    if (ids.includes(node.dataset.id)) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }
}

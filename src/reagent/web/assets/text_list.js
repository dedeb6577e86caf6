/* A list of text fields that can be added and removed: the earlier messages of a chat, or documents. */
import { createElement } from "./elements.js";

/* An entry of the list is {name, content}, or {role, content} if roles are given. `minimum` entries cannot be removed. */
export function createTextList(container, noun, { roles = [], minimum = 0 } = {}) {
  const items = () => [...container.children];
  const textOf = (item) => item.querySelector("textarea");
  const roleOf = (item) => item.querySelector("select");

  const updateLabels = () => {
    items().forEach((item, i) => {
      const name = `${noun} ${i + 1}`;
      textOf(item).setAttribute("aria-label", name);
      roleOf(item)?.setAttribute("aria-label", `Role of ${name.toLowerCase()}`);
      const title = item.querySelector(".title");
      if (title) title.textContent = item.dataset.name || name;
      const button = item.querySelector("button");
      button.setAttribute("aria-label", `Remove ${name.toLowerCase()}`);
      button.hidden = items().length <= minimum;
    });
  };

  const createRole = (role) => {
    const select = createElement("select");
    const names = roles.includes(role) ? roles : [...roles, role]; // an opened chat may have other roles
    select.append(...names.map((name) => new Option(name, name, false, name === role)));
    return select;
  };

  const remove = (item) => {
    const neighbour = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    updateLabels();
    if (neighbour) textOf(neighbour).focus();
  };

  const add = ({ role = roles[0], name = "", content = "" } = {}) => {
    const item = createElement("div", "", { class: "item", "data-name": name });
    const button = createElement("button", "Remove", { type: "button", class: "plain" });
    const text = createElement("textarea", content, { rows: 2, dir: "auto", required: "" });
    item.append(roles.length ? createRole(role) : createElement("bdi", "", { class: "title", translate: "no" }), button, text);
    button.addEventListener("click", () => remove(item));
    container.append(item);
    updateLabels();
    return text;
  };

  const read = () =>
    items().map((item) => ({
      ...(roles.length ? { role: roleOf(item).value } : { name: item.dataset.name }),
      content: textOf(item).value,
    }));

  const fill = (entries) => {
    container.replaceChildren();
    entries.forEach(add);
    while (items().length < minimum) add();
  };

  return { add, read, fill };
}

/* Find and create elements of the page. All texts are inserted as text, never as markup. */

export const byId = (id) => document.getElementById(id);

export const createElement = (tag, text = "", attributes = {}) => {
  const node = Object.assign(document.createElement(tag), { textContent: text });
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
